// The one function of Windows' bcryptprimitives.dll that Go programs need and
// Wine before version 9 lacks: ProcessPrng, on the older RtlGenRandom.
// scripts/wine.sh puts it into its own Wine prefix; nothing of it is shipped.
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID data, ULONG size); // RtlGenRandom

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size) {
    while (size > 0) {
        ULONG n = size > 1u << 30 ? 1u << 30 : (ULONG)size;
        if (!SystemFunction036(data, n)) return FALSE;
        data += n;
        size -= n;
    }
    return TRUE;
}
