; The setup program for Windows, for one user and without administrator rights.
; scripts/package-windows.sh calls makensis with these definitions:
;
;   VERSION       "0.1.0-dev+g1a2b3c4"     VERSION4   "0.1.0.0"
;   STAGE         folder with all files as they are to lie in the program folder
;   LISTS         file with the macros that name each of them (it is generated)
;   KILOBYTES     what they take           ICON       an .ico file
;   OUTPUT        the setup program to write
;   SIGN          command that signs the file named behind it (optional)
;   QUICK         compress quickly, for tests (optional)
;
; Silent mode is /S; /D=FOLDER (last, unquoted) chooses another folder at the
; first installation. The uninstaller keeps the data unless it is told otherwise
; on its page, or with /S by /REMOVEDATA.
;
; Exit status: 0 done; 1 given up by the user; 2 files could not be written; 3
; Neuron still runs; 4 the old files could not be replaced.

Unicode true
Target amd64-unicode
!ifdef QUICK
  SetCompressor zlib
!else
  SetCompressor /SOLID lzma
!endif
SetDateSave off ; the same input gives the same bytes
RequestExecutionLevel user
ManifestDPIAware true
ManifestSupportedOS Win10
AllowSkipFiles off

!include MUI2.nsh
!include LogicLib.nsh
!include FileFunc.nsh
!include nsDialogs.nsh
!include WinMessages.nsh

Name "Neuron"
OutFile "${OUTPUT}"
InstallDir "$LOCALAPPDATA\Programs\Neuron"
BrandingText "Neuron ${VERSION}"
!ifdef SIGN
  !finalize '${SIGN} "%1"' = 0
  !uninstfinalize '${SIGN} "%1"' = 0
!endif

VIProductVersion "${VERSION4}"
VIFileVersion "${VERSION4}"
!macro VERSION_OF LANGUAGE
  VIAddVersionKey /LANG=${LANGUAGE} "ProductName" "Neuron"
  VIAddVersionKey /LANG=${LANGUAGE} "ProductVersion" "${VERSION}"
  VIAddVersionKey /LANG=${LANGUAGE} "FileVersion" "${VERSION}"
  VIAddVersionKey /LANG=${LANGUAGE} "FileDescription" "Neuron Setup"
  VIAddVersionKey /LANG=${LANGUAGE} "CompanyName" "The Neuron project"
  VIAddVersionKey /LANG=${LANGUAGE} "LegalCopyright" "Apache-2.0"
!macroend

!define CLASSES "Software\Classes"
!define CURRENT "Software\Microsoft\Windows\CurrentVersion"
!define UNINSTALL "${CURRENT}\Uninstall\Neuron"

!define MUI_ICON "${ICON}"
!define MUI_UNICON "${ICON}"
!define MUI_ABORTWARNING
!define MUI_FINISHPAGE_RUN
!define MUI_FINISHPAGE_RUN_TEXT "$(OpenNow)"
!define MUI_FINISHPAGE_RUN_FUNCTION OpenWindow

!define MUI_PAGE_CUSTOMFUNCTION_PRE FirstTimeOnly
!insertmacro MUI_PAGE_DIRECTORY
!insertmacro MUI_PAGE_INSTFILES
!insertmacro MUI_PAGE_FINISH
UninstPage custom un.AskAboutData un.HearAboutData
!insertmacro MUI_UNPAGE_INSTFILES

!insertmacro MUI_LANGUAGE "English"
!insertmacro MUI_LANGUAGE "German"
!insertmacro MUI_LANGUAGE "French"
!insertmacro VERSION_OF ${LANG_ENGLISH}
!insertmacro VERSION_OF ${LANG_GERMAN}
!insertmacro VERSION_OF ${LANG_FRENCH}
!include /CHARSET=UTF8 "${__FILEDIR__}/texts.nsh"
!include "${LISTS}"

Var Upgrade    ; 1 when a version is there already
Var Ran        ; 1 when the tray ran, which then starts again, hidden
Var Busy       ; 1 when a file of the program folder is in use
Var DataFolder
Var RemoveData ; 1 when the user wants it
Var Checkbox

; ---------------------------------------------------------------- both programs

; IN_USE sets Busy when a file exists and cannot be written: on Windows a program
; or library that runs is such a file.
!macro IN_USE PATH
  ${If} ${FileExists} "${PATH}"
    ClearErrors
    FileOpen $R9 "${PATH}" a
    ${If} ${Errors}
      StrCpy $Busy 1
    ${Else}
      FileClose $R9
    ${EndIf}
  ${EndIf}
!macroend

!macro FUNCTIONS UN
Function ${UN}LookForUse
  StrCpy $Busy 0
  !insertmacro IN_USE "$INSTDIR\neuron.exe"
  !insertmacro IN_USE "$INSTDIR\neuron-tray.exe"
  !insertmacro IN_USE "$INSTDIR\neuron-engine.exe"
  ClearErrors
  FindFirst $R7 $R8 "$INSTDIR\lib\*.dll"
  ${DoUntil} ${Errors}
    ${If} $R8 != ""
      !insertmacro IN_USE "$INSTDIR\lib\$R8"
      ClearErrors
    ${EndIf}
    FindNext $R7 $R8
  ${LoopUntil} $R8 == ""
  FindClose $R7
  ClearErrors
FunctionEnd

; EndNeuron asks what runs to finish its work and to end; nothing is ever killed.
; On the stack: the tray program that asks. Sets Busy when something still runs.
Function ${UN}EndNeuron
  Exch $0
  Push $1
  Push $2
  again:
  DetailPrint "$(Ending)"
  StrCpy $1 1
  ClearErrors
  ExecWait '"$0" --quit' $1
  ; A program's file is free a moment after it has said good-bye.
  StrCpy $2 0
  ${Do}
    Call ${UN}LookForUse
    ${If} $Busy = 0
    ${OrIf} $2 >= 30
      ${Break}
    ${EndIf}
    Sleep 500
    IntOp $2 $2 + 1
  ${Loop}
  ${If} $Busy <> 0
    MessageBox MB_RETRYCANCEL|MB_ICONEXCLAMATION "$(StillRuns)" /SD IDCANCEL IDRETRY again
  ${EndIf}
  Pop $2
  Pop $1
  Pop $0
FunctionEnd
!macroend
!insertmacro FUNCTIONS ""
!insertmacro FUNCTIONS "un."

; ---------------------------------------------------------------------- the setup

; An installation is replaced where it is.
Function .onInit
  ReadRegStr $0 HKCU "${UNINSTALL}" "InstallLocation"
  StrCpy $Upgrade 0
  ${If} $0 != ""
  ${AndIf} ${FileExists} "$0\neuron-engine.exe"
    StrCpy $INSTDIR $0
    StrCpy $Upgrade 1
  ${EndIf}
FunctionEnd

Function FirstTimeOnly
  ${If} $Upgrade = 1
    Abort ; the page, not the setup
  ${EndIf}
FunctionEnd

; By way of the desktop's own process, which never has more rights than the user.
Function OpenWindow
  Exec '"$WINDIR\explorer.exe" "$SMPROGRAMS\Neuron.lnk"'
FunctionEnd

; StartHidden starts the tray as it was before. A setup with an administrator's
; rights (TokenElevationType is Full) has the desktop's own process do it: Neuron
; must not get those rights.
Function StartHidden
  StrCpy $2 0
  System::Call 'kernel32::GetCurrentProcess() p .r0'
  System::Call 'advapi32::OpenProcessToken(p r0, i 8, *p .r1) i .r3'
  ${If} $3 <> 0
    System::Call 'advapi32::GetTokenInformation(p r1, i 18, *i .r2, i 4, *i .r3)'
    System::Call 'kernel32::CloseHandle(p r1)'
  ${EndIf}
  SetOutPath "$INSTDIR"
  ${If} $2 = 2
    CreateShortCut "$INSTDIR\hidden.lnk" "$INSTDIR\neuron-tray.exe" "--hidden"
    Exec '"$WINDIR\explorer.exe" "$INSTDIR\hidden.lnk"'
  ${Else}
    Exec '"$INSTDIR\neuron-tray.exe" --hidden'
  ${EndIf}
FunctionEnd

; GiveUp leaves what was there before. On the stack: the exit status.
Function GiveUp
  Pop $0
  SetOutPath "$TEMP"
  RMDir /r "$INSTDIR\new"
  RMDir "$INSTDIR"
  ${If} $Ran = 1
    Call StartHidden
  ${EndIf}
  SetErrorLevel $0
  Quit
FunctionEnd

; RemoveListed removes the files of an older version by the list that came with
; it. Only plain names below the program folder count, whoever wrote the list.
Function RemoveListed
  ClearErrors
  FileOpen $0 "$INSTDIR\installed.txt" r
  ${If} ${Errors}
    Return
  ${EndIf}
  ${Do}
    ClearErrors
    FileRead $0 $1
    ${If} ${Errors}
      ${Break}
    ${EndIf}
    ; Without the line's end; a name with "..", ":" or "\" in front is none.
    StrCpy $2 0
    StrCpy $5 ""
    ${Do}
      StrCpy $3 $1 1 $2
      ${If} $3 == ""
      ${OrIf} $3 == "$\r"
      ${OrIf} $3 == "$\n"
        ${Break}
      ${EndIf}
      StrCpy $4 $1 2 $2
      ${If} $3 == ":"
      ${OrIf} $4 == ".."
        StrCpy $5 bad
      ${EndIf}
      IntOp $2 $2 + 1
    ${Loop}
    StrCpy $1 $1 $2
    StrCpy $3 $1 1
    ${If} $1 != ""
    ${AndIf} $5 == ""
    ${AndIf} $3 != "\"
      Delete "$INSTDIR\$1"
    ${EndIf}
  ${Loop}
  FileClose $0
FunctionEnd

; MOVE puts a new file into its place; a virus scanner may hold the old one for a
; moment. Busy tells of a failure.
!macro MOVE FILE
  Push "${FILE}"
  Call MoveNew
!macroend
Function MoveNew
  Pop $0
  StrCpy $1 0
  ${If} $Busy = 0
    ${Do}
      Delete "$INSTDIR\$0"
      ClearErrors
      Rename "$INSTDIR\new\$0" "$INSTDIR\$0"
      ${IfNot} ${Errors}
        Return
      ${EndIf}
      Sleep 500
      IntOp $1 $1 + 1
    ${LoopUntil} $1 >= 20
    DetailPrint "$INSTDIR\$0"
    StrCpy $Busy 1
  ${EndIf}
FunctionEnd

Function .onInstFailed
  RMDir /r "$INSTDIR\new"
  RMDir "$INSTDIR"
FunctionEnd

Section "Neuron"
  SetShellVarContext current
  StrCpy $Ran 0
  ; Everything is unpacked beside the old version first: a full disk is found
  ; while that still works.
  RMDir /r "$INSTDIR\new"
  ClearErrors
  !insertmacro UNPACK "$INSTDIR\new"
  ${If} ${Errors}
    MessageBox MB_OK|MB_ICONSTOP "$(NotWritten)" /SD IDOK
    Push 2
    Call GiveUp
  ${EndIf}

  StrCpy $Busy 0
  !insertmacro IN_USE "$INSTDIR\neuron-tray.exe"
  StrCpy $Ran $Busy
  Push "$INSTDIR\new\neuron-tray.exe"
  Call EndNeuron
  ${If} $Busy <> 0
    Push 3
    Call GiveUp
  ${EndIf}

  SetOutPath "$INSTDIR"
  Call RemoveListed
  StrCpy $Busy 0
  !insertmacro MOVE_ALL
  ${If} $Busy <> 0
    MessageBox MB_OK|MB_ICONSTOP "$(NotReplaced)" /SD IDOK
    SetErrorLevel 4
    Quit
  ${EndIf}
  RMDir /r "$INSTDIR\new"
  WriteUninstaller "$INSTDIR\uninstall.exe"

  CreateShortCut "$SMPROGRAMS\Neuron.lnk" "$INSTDIR\neuron.exe" "" "$INSTDIR\neuron.exe" 0

  WriteRegStr HKCU "${UNINSTALL}" "DisplayName" "Neuron"
  WriteRegStr HKCU "${UNINSTALL}" "DisplayVersion" "${VERSION}"
  WriteRegStr HKCU "${UNINSTALL}" "Publisher" "The Neuron project"
  WriteRegStr HKCU "${UNINSTALL}" "DisplayIcon" "$INSTDIR\neuron.exe,0"
  WriteRegStr HKCU "${UNINSTALL}" "InstallLocation" "$INSTDIR"
  WriteRegStr HKCU "${UNINSTALL}" "UninstallString" '"$INSTDIR\uninstall.exe"'
  WriteRegStr HKCU "${UNINSTALL}" "QuietUninstallString" '"$INSTDIR\uninstall.exe" /S'
  WriteRegDWORD HKCU "${UNINSTALL}" "EstimatedSize" ${KILOBYTES}
  WriteRegDWORD HKCU "${UNINSTALL}" "NoModify" 1
  WriteRegDWORD HKCU "${UNINSTALL}" "NoRepair" 1

  ; Models and invitations. Another program that opens .gguf stays the one.
  WriteRegStr HKCU "${CLASSES}\Neuron.gguf" "" "$(ModelFile)"
  WriteRegStr HKCU "${CLASSES}\Neuron.gguf\DefaultIcon" "" "$INSTDIR\neuron.exe,0"
  WriteRegStr HKCU "${CLASSES}\Neuron.gguf\shell\open\command" "" '"$INSTDIR\neuron.exe" "%1"'
  WriteRegStr HKCU "${CLASSES}\.gguf\OpenWithProgids" "Neuron.gguf" ""
  ReadRegStr $0 HKCR ".gguf" ""
  ${If} $0 == ""
    WriteRegStr HKCU "${CLASSES}\.gguf" "" "Neuron.gguf"
  ${EndIf}
  WriteRegStr HKCU "${CLASSES}\neuron" "" "URL:Neuron"
  WriteRegStr HKCU "${CLASSES}\neuron" "URL Protocol" ""
  WriteRegStr HKCU "${CLASSES}\neuron\DefaultIcon" "" "$INSTDIR\neuron.exe,0"
  WriteRegStr HKCU "${CLASSES}\neuron\shell\open\command" "" '"$INSTDIR\neuron.exe" "%1"'
  System::Call 'shell32::SHChangeNotify(i 0x08000000, i 0, p 0, p 0)'

  ${If} $Ran = 1
    Call StartHidden
  ${EndIf}
SectionEnd

; ---------------------------------------------------------------- the uninstaller

; Where the programs keep a user's data: as package folders has it.
Function un.FindData
  ReadEnvStr $DataFolder LOCALAPPDATA
  ${If} $DataFolder == ""
    StrCpy $DataFolder "$LOCALAPPDATA"
  ${EndIf}
  StrCpy $DataFolder "$DataFolder\Neuron"
FunctionEnd

Function un.onInit
  Call un.FindData
  StrCpy $RemoveData 0
  ${GetParameters} $0
  ClearErrors
  ${GetOptions} $0 "/REMOVEDATA" $1
  ${If} ${Silent}
  ${AndIfNot} ${Errors}
    StrCpy $RemoveData 1
  ${EndIf}
  ClearErrors
FunctionEnd

; SizeOf leaves "< 1 MB", "12 MB" or "3,4 GB" in $1 for a size of $0 in MB.
Function un.SizeOf
  ${If} $0 < 1
    StrCpy $1 "< 1 MB"
  ${ElseIf} $0 < 1024
    StrCpy $1 "$0 MB"
  ${Else}
    IntOp $1 $0 / 1024
    IntOp $2 $0 % 1024
    IntOp $2 $2 * 10
    IntOp $2 $2 / 1024
    StrCpy $1 "$1$(DecimalPoint)$2 GB"
  ${EndIf}
FunctionEnd

Function un.AskAboutData
  !insertmacro MUI_HEADER_TEXT "$(RemoveTitle)" "$(RemoveSubtitle)"
  nsDialogs::Create 1018
  Pop $0
  ${NSD_CreateLabel} 0 0 100% 24u "$(RemoveWhat)"
  Pop $0
  ${If} ${FileExists} "$DataFolder\*.*"
    ${GetSize} "$DataFolder" "/S=0M" $0 $1 $2
    Call un.SizeOf
    ${NSD_CreateCheckbox} 0 32u 100% 12u "$(RemoveDataToo)"
    Pop $Checkbox
    ${NSD_CreateLabel} 12u 48u 95% 48u "$(RemoveDataMeans)"
    Pop $0
  ${Else}
    StrCpy $Checkbox ""
  ${EndIf}
  GetDlgItem $0 $HWNDPARENT 1
  SendMessage $0 ${WM_SETTEXT} 0 "STR:$(^UninstallBtn)"
  nsDialogs::Show
FunctionEnd

Function un.HearAboutData
  ${If} $Checkbox != ""
    ${NSD_GetState} $Checkbox $0
    ${If} $0 = ${BST_CHECKED}
      StrCpy $RemoveData 1
    ${EndIf}
  ${EndIf}
FunctionEnd

Section "Uninstall"
  SetShellVarContext current
  ${If} ${FileExists} "$INSTDIR\neuron-tray.exe"
    Push "$INSTDIR\neuron-tray.exe"
    Call un.EndNeuron
    ${If} $Busy <> 0
      SetErrorLevel 3
      Quit
    ${EndIf}
  ${EndIf}

  ; What starts at login, if it is this program.
  ReadRegStr $0 HKCU "${CURRENT}\Run" "Neuron"
  StrLen $1 '"$INSTDIR\'
  StrCpy $0 $0 $1
  ${If} $0 == '"$INSTDIR\'
    DeleteRegValue HKCU "${CURRENT}\Run" "Neuron"
    DeleteRegValue HKCU "${CURRENT}\Explorer\StartupApproved\Run" "Neuron"
  ${EndIf}

  ReadRegStr $0 HKCU "${CLASSES}\.gguf" ""
  ${If} $0 == "Neuron.gguf"
    DeleteRegValue HKCU "${CLASSES}\.gguf" ""
  ${EndIf}
  DeleteRegValue HKCU "${CLASSES}\.gguf\OpenWithProgids" "Neuron.gguf"
  DeleteRegKey /ifnosubkeys /ifnovalues HKCU "${CLASSES}\.gguf\OpenWithProgids"
  DeleteRegKey /ifnosubkeys /ifnovalues HKCU "${CLASSES}\.gguf"
  DeleteRegKey HKCU "${CLASSES}\Neuron.gguf"
  ReadRegStr $0 HKCU "${CLASSES}\neuron\shell\open\command" ""
  ${If} $0 == '"$INSTDIR\neuron.exe" "%1"'
    DeleteRegKey HKCU "${CLASSES}\neuron"
  ${EndIf}
  DeleteRegKey HKCU "${UNINSTALL}"
  DeleteRegKey /ifnosubkeys /ifnovalues HKCU "${CURRENT}\Uninstall" ; a new user has none
  System::Call 'shell32::SHChangeNotify(i 0x08000000, i 0, p 0, p 0)'
  Delete "$SMPROGRAMS\Neuron.lnk"

  ; What the window's toolkit keeps of it; nothing of the user's is in there.
  RMDir /r "$APPDATA\fyne\network.neuron.app"
  RMDir "$APPDATA\fyne"

  SetOutPath "$TEMP" ; the folder that is the current one cannot be removed
  !insertmacro REMOVE_ALL
  Delete "$INSTDIR\hidden.lnk"
  Delete "$INSTDIR\uninstall.exe"
  RMDir /r "$INSTDIR\new"
  RMDir "$INSTDIR"
  RMDir "$LOCALAPPDATA\Programs" ; if it is empty, as everywhere here

  ${If} $RemoveData = 1
    RMDir /r "$DataFolder"
  ${EndIf}
SectionEnd
