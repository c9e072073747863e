/* A second, small stand-in for libnvidia-ml.so.1 with other habits than costguard.testing.nvml's, so that the reader is
 * not tried against one library alone. The file named by OTHER_NVML has a line for each GPU, read in every call:
 *
 *     UTILISATION ENCODER MILLIWATTS PROCESSES CODE
 *
 * CODE other than 0 is what each call about that GPU answers. Its habits: every handle is a fresh pointer; samples come
 * newest first, in an array of exactly the number that was told before; PCI addresses are found in one spelling only;
 * it prints. ALIKE: every GPU tells the same PCI address and UUID.
 * OTHER_NVML_SECONDS is its time, which goes by itself where nobody says it. OLD, NEW and BARE choose what the library has: as before version 2 of most calls; with calls given up; next to nothing.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef unsigned int u32;
typedef unsigned long long u64;
struct gpu { u32 number, util, encoder, milliwatts, processes, code; };
struct sample { u64 at, value; };
struct process { u32 pid; u64 memory; u32 more[2]; };

static int ready;

/* The line of a GPU; the number of lines when there is none. */
static int look(u32 number, struct gpu *to) {
    FILE *file = fopen(getenv("OTHER_NVML"), "r");
    char line[200];
    int count = 0, found = -1;
    if (!file) return -1;
    while (fgets(line, sizeof line, file)) {
        if (to && (u32)count == number)
            found = sscanf(line, "%u %u %u %u %u", &to->util, &to->encoder, &to->milliwatts, &to->processes, &to->code);
        count++;
    }
    fclose(file);
    return to ? (found == 5 ? 0 : 15) : count;
}
static int ask(struct gpu *gpu) {
    if (!ready) return 1;
    int code = look(gpu->number, gpu);
    return code ? code : (int)gpu->code;
}
#ifdef ALIKE
#define NAMED(gpu) 0
#else
#define NAMED(gpu) (gpu)->number
#endif
#define ASK(gpu) { int code = ask(gpu); if (code) return code; }

int nvmlInit_v2(void) { return puts("other NVML: a line that nobody asked for"), fflush(stdout), ready = 1, 0; }
int nvmlShutdown(void) { return ready = 0, 0; }
const char *nvmlErrorString(int code) { return code ? "no words for it" : "fine"; }
int nvmlDeviceGetCount_v2(u32 *count) { return ready ? (*count = (u32)look(0, NULL), 0) : 1; }
int nvmlDeviceGetHandleByIndex_v2(u32 index, struct gpu **to) {
    struct gpu gpu = {.number = index};
    if ((int)index >= look(0, NULL)) return 2;
    ASK(&gpu)
    *to = malloc(sizeof **to);
    **to = gpu;
    return 0;
}
int nvmlDeviceGetUtilizationRates(struct gpu *gpu, u32 *to) { ASK(gpu) to[0] = gpu->util; to[1] = 0; return 0; }

#ifndef BARE
int nvmlInitWithFlags(u32 flags) { return (void)flags, nvmlInit_v2(); }
int nvmlDeviceGetName(struct gpu *gpu, char *to, u32 size) { ASK(gpu) snprintf(to, size, "Other GPU"); return 0; }
int nvmlDeviceGetUUID(struct gpu *gpu, char *to, u32 size) { ASK(gpu) snprintf(to, size, "GPU-other-%u", NAMED(gpu)); return 0; }
int nvmlDeviceGetPciInfo_v3(struct gpu *gpu, char *to) {
    ASK(gpu)
    u32 numbers[] = {0, NAMED(gpu) + 1, 0, 0x233010de, 0};
    memset(to, 0, 68);
    memcpy(to + 16, numbers, sizeof numbers);
    sprintf(to + 36, "00000000:%02X:00.0", NAMED(gpu) + 1);
    return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char *id, struct gpu **to) {
    u32 bus = 0;
    if (strlen(id) != 16 || sscanf(id, "00000000:%2X:00.0", &bus) != 1) return 6;
    return nvmlDeviceGetHandleByIndex_v2(bus - 1, to);
}
int nvmlDeviceGetEncoderUtilization(struct gpu *gpu, u32 *to, u32 *period) { ASK(gpu) *to = gpu->encoder; *period = 1; return 0; }
int nvmlDeviceGetPowerUsage(struct gpu *gpu, u32 *to) { ASK(gpu) *to = gpu->milliwatts; return 0; }
#endif

#ifdef OLD
static u64 microseconds(void) {
    const char *told = getenv("OTHER_NVML_SECONDS");
    struct timespec t;
    if (told) return (u64)(strtod(told, NULL) * 1e6);
    clock_gettime(CLOCK_REALTIME, &t);
    return (u64)t.tv_sec * 1000000 + (u64)t.tv_nsec / 1000;
}

int nvmlDeviceGetComputeRunningProcesses(struct gpu *gpu, u32 *count, u64 *to) {
    u32 room = *count;
    ASK(gpu)
    *count = gpu->processes;
    if (gpu->processes > room) return 7;
    for (u32 i = 0; i < gpu->processes; i++) to[2 * i] = 100 + i, to[2 * i + 1] = ~0ULL;
    return 0;
}
int nvmlDeviceGetSamples(struct gpu *gpu, u32 type, u64 since, u32 *kind, u32 *count, struct sample *to) {
    enum { RING = 20 };
    ASK(gpu)
    if (type != 1) return 3;
    (void)since; /* this one always gives all it has */
    *kind = 3;
    if (!to) return *count = RING, 0;
    if (*count != RING) return 2;
    for (u32 i = 0; i < RING; i++) to[i] = (struct sample){microseconds() / 200000 * 200000 - 200000 * i, gpu->util};
    return 0;
}
#endif

#ifdef NEW
int nvmlDeviceGetIndex(struct gpu *gpu, u32 *to) { ASK(gpu) *to = gpu->number; return 0; }
int nvmlDeviceGetSamples(struct gpu *gpu) { ASK(gpu) return 26; }
int nvmlDeviceGetMemoryInfo(struct gpu *gpu) { ASK(gpu) return 26; }
int nvmlDeviceGetMemoryInfo_v2(struct gpu *gpu) { ASK(gpu) return 25; }
int nvmlGpmQueryDeviceSupport(struct gpu *gpu) { ASK(gpu) return 25; }
int nvmlDeviceGetDecoderUtilization(struct gpu *gpu) { ASK(gpu) return 26; }
int nvmlDeviceGetTotalEnergyConsumption(struct gpu *gpu, u64 *to) { ASK(gpu) *to = 0; return 25; }
int nvmlDeviceGetComputeRunningProcesses_v3(struct gpu *gpu, u32 *count, struct process *to) {
    u32 room = *count;
    ASK(gpu)
    *count = gpu->processes;
    if (gpu->processes > room) return 7;
    for (u32 i = 0; i < gpu->processes; i++) to[i] = (struct process){.pid = 100 + i};
    return 0;
}
#endif
