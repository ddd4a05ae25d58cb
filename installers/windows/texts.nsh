; What setup and uninstaller say. English is the fallback.

LangString OpenNow ${LANG_ENGLISH} "Open Neuron"
LangString OpenNow ${LANG_GERMAN} "Neuron öffnen"
LangString OpenNow ${LANG_FRENCH} "Ouvrir Neuron"

LangString Ending ${LANG_ENGLISH} "Neuron finishes running work and ends. This may take a minute ..."
LangString Ending ${LANG_GERMAN} "Neuron beendet laufende Arbeit und sich selbst. Das kann eine Minute dauern ..."
LangString Ending ${LANG_FRENCH} "Neuron termine le travail en cours puis se ferme. Cela peut prendre une minute ..."

LangString StillRuns ${LANG_ENGLISH} "Neuron still runs. Quit it from its icon near the clock, then try again."
LangString StillRuns ${LANG_GERMAN} "Neuron läuft noch. Beenden Sie es über sein Symbol neben der Uhr und versuchen Sie es dann erneut."
LangString StillRuns ${LANG_FRENCH} "Neuron est encore en cours d'exécution. Quittez-le par son icône près de l'horloge, puis réessayez."

LangString NotWritten ${LANG_ENGLISH} "The files could not be written. Is there room on the disk? What was installed before is as it was."
LangString NotWritten ${LANG_GERMAN} "Die Dateien konnten nicht geschrieben werden. Ist genug Platz auf dem Datenträger? Was vorher installiert war, ist unverändert."
LangString NotWritten ${LANG_FRENCH} "Les fichiers n'ont pas pu être écrits. Reste-t-il de la place sur le disque ? Ce qui était installé n'a pas changé."

LangString NotReplaced ${LANG_ENGLISH} "Some files of the old version could not be replaced. Restart the computer and run this setup again. Your data is untouched."
LangString NotReplaced ${LANG_GERMAN} "Einige Dateien der alten Version konnten nicht ersetzt werden. Starten Sie den Computer neu und führen Sie dieses Setup erneut aus. Ihre Daten sind unverändert."
LangString NotReplaced ${LANG_FRENCH} "Certains fichiers de l'ancienne version n'ont pas pu être remplacés. Redémarrez l'ordinateur et relancez cette installation. Vos données sont intactes."

LangString ModelFile ${LANG_ENGLISH} "GGUF model"
LangString ModelFile ${LANG_GERMAN} "GGUF-Modell"
LangString ModelFile ${LANG_FRENCH} "Modèle GGUF"

LangString DecimalPoint ${LANG_ENGLISH} "."
LangString DecimalPoint ${LANG_GERMAN} ","
LangString DecimalPoint ${LANG_FRENCH} ","

LangString RemoveTitle ${LANG_ENGLISH} "Remove Neuron"
LangString RemoveTitle ${LANG_GERMAN} "Neuron entfernen"
LangString RemoveTitle ${LANG_FRENCH} "Supprimer Neuron"

LangString RemoveSubtitle ${LANG_ENGLISH} "Your data stays unless you say otherwise."
LangString RemoveSubtitle ${LANG_GERMAN} "Ihre Daten bleiben erhalten, wenn Sie nichts anderes wählen."
LangString RemoveSubtitle ${LANG_FRENCH} "Vos données restent, sauf si vous en décidez autrement."

LangString RemoveWhat ${LANG_ENGLISH} "Neuron will be removed from $INSTDIR."
LangString RemoveWhat ${LANG_GERMAN} "Neuron wird aus $INSTDIR entfernt."
LangString RemoveWhat ${LANG_FRENCH} "Neuron va être supprimé de $INSTDIR."

LangString RemoveDataToo ${LANG_ENGLISH} "Remove my data as well ($1)"
LangString RemoveDataToo ${LANG_GERMAN} "Auch meine Daten entfernen ($1)"
LangString RemoveDataToo ${LANG_FRENCH} "Supprimer aussi mes données ($1)"

LangString RemoveDataMeans ${LANG_ENGLISH} "Models, chats, settings and the owner key in $DataFolder. The credit that you have earned hangs on that key: without a copy of it, it is lost for good."
LangString RemoveDataMeans ${LANG_GERMAN} "Modelle, Chats, Einstellungen und der Besitzerschlüssel in $DataFolder. An diesem Schlüssel hängt Ihr verdientes Guthaben: Ohne eine Kopie davon ist es endgültig verloren."
LangString RemoveDataMeans ${LANG_FRENCH} "Modèles, discussions, réglages et la clé de propriétaire dans $DataFolder. Le crédit que vous avez gagné dépend de cette clé : sans copie, il est perdu pour de bon."
