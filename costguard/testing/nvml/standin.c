/* A stand-in for libnvidia-ml.so.1, so that programs that ask NVML can be tried without a GPU.
 *
 * The file named by COSTGUARD_STANDIN_NVML says what the GPUs are and do. It is looked at (stat) in
 * every call and read again when it was replaced. docs/testing-nvml.md describes its lines.
 * COSTGUARD_STANDIN_NVML_LOG names a file to which each call is appended: pid, microseconds since
 * boot, function, GPU index or "-".
 *
 * Layouts of structures and numbers of codes follow NVIDIA's published NVML interface. Nothing in
 * here talks to a driver.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifndef LIBRARY_VERSION
#define LIBRARY_VERSION "" /* empty: whatever driver the script names */
#endif

#define API __attribute__((visibility("default")))
#define MAX_GPUS 16
#define MAX_RULES 256
#define MAX_SEGMENTS 64
#define MAX_PROCESSES 32
#define MAX_METRICS 64
#define MAX_INSTANCES 8
#define MAX_COUNTERS 16
#define SAMPLE_SECONDS (1.0 / 6.0)

typedef unsigned int uint;
typedef unsigned long long ull;

enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7, GPU_IS_LOST = 15, LIB_RM_VERSION_MISMATCH = 18, VERSION_MISMATCH = 25,
};

/* ---- public structures ------------------------------------------------------------------- */
typedef struct { uint gpu, memory; } utilization_t;
typedef struct { ull total, free, used; } memory_t;
typedef struct { uint version; ull total, reserved, free, used; } memory_v2_t;
typedef struct {
    char bus_id_legacy[16];
    uint domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
} pci_info_t;
typedef struct { uint pid; ull used; } process_v1_t;
typedef struct { uint pid; ull used; uint gpu_instance, compute_instance; } process_v2_t;
typedef union { double d; uint u; unsigned long ul; ull ull_; long long ll; } value_t;
typedef struct { ull timestamp; value_t value; } sample_t;
typedef struct { uint pid; ull timestamp; uint sm, mem, enc, dec; } process_sample_t;
typedef struct {
    uint field, scope;
    long long timestamp, latency;
    uint value_type, code;
    value_t value;
} field_t;
typedef struct { uint version, supported; } gpm_support_t;
typedef struct { uint id, code; double value; const char *short_name, *long_name, *unit; } gpm_metric_t;
typedef struct { int gpu, instance; double at; } gpm_sample_t; /* instance -1: the whole GPU */
typedef struct { uint version, count; gpm_sample_t *first, *second; gpm_metric_t metrics[]; } gpm_get_t;
typedef struct { uint version; uint sensor; int celsius; } temperature_t;

/* ---- the scripted world ------------------------------------------------------------------ */
typedef struct { int absent; double at, value; } segment_t;
typedef struct { int absent; double number; } number_t; /* absent: the driver says NOT_SUPPORTED */
typedef struct { uint pid; double mib; int absent_memory; char kind; uint sm, mem, enc, dec; } process_t;
typedef struct {
    segment_t util[MAX_SEGMENTS];
    int utils, processes, metrics;
    number_t engine[4]; /* encoder, decoder, jpeg, ofa */
    number_t memory_util, memory_used, memory_total, power, limit, default_limit, temperature, clock, persistence, mig;
    number_t energy; /* millijoules at energy_at; grows by power */
    double energy_at;
    int ring, ring_dry, ring_type, lost, handle, gpm;
    char name[96], uuid[96], pci[32];
    process_t process[MAX_PROCESSES];
    struct { int instance; uint id; double value; } metric[MAX_METRICS];
    int instance[MAX_INSTANCES], instances; /* MIG GPU instances, by their numbers */
    struct { uint field; double value, at, rate; } counter[MAX_COUNTERS];
    int counters;
} gpu_t;

enum rule_kind { CODE, LATENCY, COST, HANG, UNINTERRUPTIBLE };
typedef struct { enum rule_kind kind; int gpu; char function[64]; double value; } rule_t;

static struct world {
    int gpus, count, rules;
    char driver[64], nvml[64];
    int cuda;
    double time; /* above 0: the clock stands there */
    gpu_t gpu[MAX_GPUS];
    rule_t rule[MAX_RULES];
} world;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct stat seen;
static int references;
static pid_t owner; /* after fork, a child must initialise again */

/* Seconds since boot, or those at which the script lets its clock stand. */
static double now(void) {
    if (world.time > 0) return world.time;
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static number_t number(const char *text) {
    number_t n = {0, 0};
    if (!strcmp(text, "na")) n.absent = 1;
    else n.number = strtod(text, NULL);
    return n;
}

static void defaults(struct world *w) {
    memset(w, 0, sizeof *w);
    w->count = -1;
    w->cuda = 12040;
    strcpy(w->driver, "550.54.15");
    strcpy(w->nvml, "12.550.54.15");
    for (int i = 0; i < MAX_GPUS; i++) {
        gpu_t *g = &w->gpu[i];
        g->ring = 100;
        g->ring_type = 1;
        g->memory_total.number = 81559;
        g->power.number = 70;
        g->limit.number = g->default_limit.number = 700;
        g->temperature.number = 35;
        g->clock.number = 345;
        g->persistence.number = 1;
        g->mig.absent = 1;
        snprintf(g->name, sizeof g->name, "NVIDIA H100 80GB HBM3");
        snprintf(g->uuid, sizeof g->uuid, "GPU-5d000000-0000-4000-8000-%012x", (uint)i);
        snprintf(g->pci, sizeof g->pci, "0000:%02x:00.0", (uint)i + 1);
    }
}

static void raw_bytes(char *to, size_t size, const char *hex) {
    size_t n = 0;
    uint byte;
    while (n + 1 < size && sscanf(hex, "%2x", &byte) == 1) { to[n++] = (char)byte; hex += 2; }
    to[n] = 0;
}

static void add_rule(struct world *w, int gpu, enum rule_kind kind, const char *function, double value) {
    if (w->rules == MAX_RULES) return;
    rule_t *r = &w->rule[w->rules++];
    r->kind = kind; r->gpu = gpu; r->value = value;
    snprintf(r->function, sizeof r->function, "%s", function);
}

/* code, latency and hang: for one GPU or, with gpu -1, for all calls. */
static int rule_line(struct world *w, int gpu, const char *key, char *rest) {
    char function[64] = "", value[64] = "", extra[64] = "";
    int n = sscanf(rest, "%63s %63s %63s", function, value, extra);
    if (n < 2) return 0;
    if (!strcmp(key, "code")) add_rule(w, gpu, CODE, function, strtod(value, NULL));
    else if (!strcmp(key, "latency")) add_rule(w, gpu, LATENCY, function, strtod(value, NULL));
    else if (!strcmp(key, "cost")) add_rule(w, gpu, COST, function, strtod(value, NULL));
    else if (!strcmp(key, "hang") && !strcmp(value, "uninterruptible"))
        add_rule(w, gpu, UNINTERRUPTIBLE, function, n == 3 ? strtod(extra, NULL) : 1e9);
    else if (!strcmp(key, "hang"))
        add_rule(w, gpu, HANG, function, !strcmp(value, "forever") ? 1e9 : strtod(value, NULL));
    else return 0;
    return 1;
}

static void process_line(gpu_t *g, char *rest) {
    char mib[32] = "", kind[16] = "compute";
    process_t p = {0};
    if (!strncmp(rest, "none", 4)) { g->processes = 0; return; }
    if (g->processes == MAX_PROCESSES) return;
    if (sscanf(rest, "%u %31s %15s %u %u %u %u", &p.pid, mib, kind, &p.sm, &p.mem, &p.enc, &p.dec) < 2) return;
    number_t used = number(mib);
    p.absent_memory = used.absent;
    p.mib = used.number;
    p.kind = kind[0];
    g->process[g->processes++] = p;
}

static void util_line(gpu_t *g, char *rest) {
    char text[32] = "";
    double since = 0;
    if (sscanf(rest, "%31s %lf", text, &since) < 1) return;
    if (since == 0) g->utils = 0;
    if (g->utils == MAX_SEGMENTS) return;
    number_t n = number(text);
    g->util[g->utils++] = (segment_t){n.absent, since, n.number};
}

/* A MIG instance, alone or with one of its metrics. */
static void instance_line(gpu_t *g, char *rest) {
    int number = 0, m = g->metrics, known = 0;
    int n = sscanf(rest, "%d %u %lf", &number, &g->metric[m].id, &g->metric[m].value);
    for (int i = 0; i < g->instances; i++) known |= g->instance[i] == number;
    if (n >= 1 && !known && g->instances < MAX_INSTANCES) g->instance[g->instances++] = number;
    if (n == 3) g->metric[g->metrics++].instance = number;
}

static void gpu_line(struct world *w, int i, const char *key, char *rest) {
    static const char *const engines[] = {"encoder", "decoder", "jpeg", "ofa"};
    gpu_t *g = &w->gpu[i];
    struct { const char *key; number_t *to; } numbers[] = {
        {"memory_util", &g->memory_util}, {"memory_used", &g->memory_used}, {"memory_total", &g->memory_total},
        {"power", &g->power}, {"limit", &g->limit}, {"default_limit", &g->default_limit}, {"temperature", &g->temperature}, {"clock", &g->clock},
        {"persistence", &g->persistence}, {"mig", &g->mig},
    };
    struct { const char *key; int *to; } whole[] = {
        {"ring", &g->ring}, {"ring_dry", &g->ring_dry}, {"ring_type", &g->ring_type}, {"lost", &g->lost},
        {"handle", &g->handle}, {"gpm", &g->gpm},
    };
    for (size_t k = 0; k < 4; k++) if (!strcmp(key, engines[k])) g->engine[k] = number(rest);
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
        if (!strcmp(key, numbers[k].key)) *numbers[k].to = number(rest);
    for (size_t k = 0; k < sizeof whole / sizeof *whole; k++)
        if (!strcmp(key, whole[k].key)) *whole[k].to = atoi(rest);
    if (!strcmp(key, "util")) util_line(g, rest);
    else if (!strcmp(key, "process")) process_line(g, rest);
    else if (!strcmp(key, "name")) snprintf(g->name, sizeof g->name, "%s", rest);
    else if (!strcmp(key, "name_hex")) raw_bytes(g->name, sizeof g->name, rest);
    else if (!strcmp(key, "uuid")) snprintf(g->uuid, sizeof g->uuid, "%s", rest);
    else if (!strcmp(key, "uuid_hex")) raw_bytes(g->uuid, sizeof g->uuid, rest);
    else if (!strcmp(key, "pci")) snprintf(g->pci, sizeof g->pci, "%s", rest);
    else if (!strcmp(key, "energy")) {
        char text[40] = "";
        g->energy_at = 0;
        if (sscanf(rest, "%39s %lf", text, &g->energy_at) >= 1) g->energy = number(text);
    } else if (!strcmp(key, "gpm_metric") && g->metrics < MAX_METRICS) {
        g->metric[g->metrics].instance = -1;
        if (sscanf(rest, "%u %lf", &g->metric[g->metrics].id, &g->metric[g->metrics].value) == 2) g->metrics++;
    } else if (!strcmp(key, "instance") && g->metrics < MAX_METRICS) instance_line(g, rest);
    else if (!strcmp(key, "counter") && g->counters < MAX_COUNTERS) {
        int n = g->counters;
        if (sscanf(rest, "%u %lf %lf %lf", &g->counter[n].field, &g->counter[n].value, &g->counter[n].at,
                   &g->counter[n].rate) == 4) g->counters++;
    }
}

static void script_line(struct world *w, char *line) {
    char key[64] = "", which[16] = "";
    int used = 0;
    if (sscanf(line, "%63s %n", key, &used) < 1 || key[0] == '#') return;
    char *rest = line + used;
    if (!strcmp(key, "gpus")) w->gpus = atoi(rest) > MAX_GPUS ? MAX_GPUS : atoi(rest);
    else if (!strcmp(key, "count")) w->count = atoi(rest);
    else if (!strcmp(key, "cuda")) w->cuda = atoi(rest);
    else if (!strcmp(key, "time")) w->time = strtod(rest, NULL);
    else if (!strcmp(key, "driver")) snprintf(w->driver, sizeof w->driver, "%s", rest);
    else if (!strcmp(key, "nvml")) snprintf(w->nvml, sizeof w->nvml, "%s", rest);
    else if (!strcmp(key, "init")) add_rule(w, -1, CODE, "nvmlInit", atoi(rest));
    else if (rule_line(w, -1, key, rest)) return;
    else if (!strcmp(key, "gpu") && sscanf(rest, "%15s %63s %n", which, key, &used) == 2) {
        rest += used;
        int first = which[0] == '*' ? 0 : atoi(which), last = which[0] == '*' ? MAX_GPUS - 1 : first;
        if (first < 0 || last >= MAX_GPUS) return;
        if (rule_line(w, which[0] == '*' ? -1 : first, key, rest)) return;
        for (int i = first; i <= last; i++) gpu_line(w, i, key, rest);
    }
}

static void refresh(void) {
    const char *path = getenv("COSTGUARD_STANDIN_NVML");
    struct stat s;
    if (!path || stat(path, &s)) {
        if (!world.driver[0]) defaults(&world);
        return;
    }
    if (s.st_ino == seen.st_ino && s.st_size == seen.st_size && s.st_mtim.tv_sec == seen.st_mtim.tv_sec &&
        s.st_mtim.tv_nsec == seen.st_mtim.tv_nsec)
        return;
    FILE *f = fopen(path, "re");
    if (!f) return;
    static struct world fresh;
    char line[512];
    defaults(&fresh);
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\r\n")] = 0;
        script_line(&fresh, line);
    }
    fclose(f);
    world = fresh;
    seen = s;
}

/* ---- what every call goes through -------------------------------------------------------- */
static void write_log(const char *function, int gpu) {
    const char *path = getenv("COSTGUARD_STANDIN_NVML_LOG");
    if (!path || !*path) return;
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0) return;
    char line[160], index[16] = "-";
    if (gpu >= 0) snprintf(index, sizeof index, "%d", gpu);
    int n = snprintf(line, sizeof line, "%d %.0f %s %s\n", (int)getpid(), now() * 1e6, function, index);
    if (write(fd, line, (size_t)n) < 0) { /* a full disk must not change what the library answers */ }
    close(fd);
}

static void sleep_for(double seconds) {
    struct timespec t = {(time_t)seconds, (long)(fmod(seconds, 1.0) * 1e9)};
    while (nanosleep(&t, &t)) {}
}

/* As a driver that waits for the GPU's own processor: it keeps this one busy. */
static void compute_for(double seconds) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    double end = (double)t.tv_sec + (double)t.tv_nsec / 1e9 + seconds;
    do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); while ((double)t.tv_sec + (double)t.tv_nsec / 1e9 < end);
}

/* A parent waits for its vfork child in uninterruptible sleep (state D), yet SIGKILL ends it. */
static void sleep_uninterruptible(double seconds) {
    pid_t child = vfork();
    if (child == 0) {
        struct timespec t = {(time_t)seconds, (long)(fmod(seconds, 1.0) * 1e9)};
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        nanosleep(&t, NULL);
        _exit(0);
    }
}

/* A rule names a function exactly, without its version suffix, or "*". */
static int names(const char *rule, const char *function) {
    if (!strcmp(rule, "*") || !strcmp(rule, function)) return 1;
    size_t n = strlen(rule);
    if (strncmp(rule, function, n)) return 0;
    return (function[n] == '_' && function[n + 1] == 'v') || !strcmp(function + n, "WithFlags");
}

/* Log, wait, hang, fail: 0 when the call may go on. Called with the lock held, which it gives up to wait. */
static int enter(const char *function, int gpu) {
    int code = 0;
    double wait = 0, block = 0, compute = 0;
    refresh();
    write_log(function, gpu);
    for (int i = 0; i < world.rules; i++) {
        rule_t *r = &world.rule[i];
        if ((r->gpu >= 0 && r->gpu != gpu) || !names(r->function, function)) continue;
        if (r->kind == CODE) code = (int)r->value;
        else if (r->kind == UNINTERRUPTIBLE) block = r->value;
        else if (r->kind == COST) compute = r->value;
        else wait = r->value;
    }
    if (compute > 0) compute_for(compute);
    if (wait > 0 || block > 0) {
        pthread_mutex_unlock(&lock);
        if (wait > 0) sleep_for(wait);
        if (block > 0) sleep_uninterruptible(block);
        pthread_mutex_lock(&lock);
        refresh();
    }
    if (code) return code;
    if (LIBRARY_VERSION[0] && strcmp(LIBRARY_VERSION, world.driver)) return LIB_RM_VERSION_MISMATCH;
    return 0;
}

static int enter_system(const char *function) {
    int code = enter(function, -1);
    if (code) return code;
    return references && owner == getpid() ? SUCCESS : UNINITIALIZED;
}

static int enter_gpu(const char *function, void *device, gpu_t **g) {
    long i = (long)device - 1;
    int code = enter(function, i >= 0 && i < MAX_GPUS ? (int)i : -1);
    if (code) return code;
    if (!references || owner != getpid()) return UNINITIALIZED;
    if (i < 0 || i >= MAX_GPUS) return INVALID_ARGUMENT;
    *g = &world.gpu[i];
    return (*g)->lost ? GPU_IS_LOST : SUCCESS;
}

#define SYSTEM(function, ...) \
    { pthread_mutex_lock(&lock); int code = enter_system(function); if (!code) { __VA_ARGS__ } \
      pthread_mutex_unlock(&lock); return code; }
#define DEVICE(function, ...) \
    { gpu_t *g = NULL; pthread_mutex_lock(&lock); int code = enter_gpu(function, device, &g); if (!code) { __VA_ARGS__ } \
      pthread_mutex_unlock(&lock); return code; }

static int text_out(char *to, uint size, const char *text) {
    if (strlen(text) + 1 > size) return INSUFFICIENT_SIZE;
    strcpy(to, text);
    return SUCCESS;
}
static int uint_out(uint *to, number_t n, double scale) {
    if (n.absent) return NOT_SUPPORTED;
    *to = (uint)(ull)(n.number * scale);
    return SUCCESS;
}
static segment_t util_at(const gpu_t *g, double when) {
    segment_t best = {0, 0, 0};
    for (int i = 0; i < g->utils; i++) if (g->util[i].at <= when) best = g->util[i];
    return best;
}
/* The mean over a time, of what the ring shows of it: GPM counts it, too. */
static double util_mean(const gpu_t *g, double from, double to) {
    double sum = 0, at = from;
    for (int i = 0; i < g->utils; i++) {
        double start = g->util[i].at, end = i + 1 < g->utils ? g->util[i + 1].at : to;
        if (start < from) start = from;
        if (end > to) end = to;
        if (end > start) { sum += g->util[i].value * (end - start); at = end; }
    }
    return at > from ? sum / (to - from) : 0;
}
static ull energy_now(const gpu_t *g) {
    return (ull)(g->energy.number + (now() - g->energy_at) * g->power.number * 1000);
}

/* ---- the library itself ------------------------------------------------------------------ */
static int initialise(const char *function) {
    pthread_mutex_lock(&lock);
    int code = enter(function, -1);
    if (!code) {
        if (owner != getpid()) references = 0;
        owner = getpid();
        references++;
    }
    pthread_mutex_unlock(&lock);
    return code;
}
API int nvmlInit(void) { return initialise("nvmlInit"); }
API int nvmlInit_v2(void) { return initialise("nvmlInit_v2"); }
API int nvmlInitWithFlags(uint flags) { (void)flags; return initialise("nvmlInitWithFlags"); }
API int nvmlShutdown(void) SYSTEM("nvmlShutdown", references--;)

API const char *nvmlErrorString(int code) {
    static const struct { int code; const char *text; } words[] = {
        {0, "Success"}, {1, "Uninitialized"}, {2, "Invalid Argument"}, {3, "Not Supported"},
        {4, "Insufficient Permissions"}, {6, "Not Found"}, {7, "Insufficient Size"}, {9, "Driver Not Loaded"},
        {10, "Timeout"}, {12, "NVML Shared Library Not Found"}, {13, "Function Not Found"}, {15, "GPU is lost"},
        {16, "GPU requires restart"}, {17, "The operating system has blocked the request."},
        {18, "Driver/library version mismatch"}, {27, "Not Ready"}, {999, "Unknown Error"},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) if (words[i].code == code) return words[i].text;
    return "Unknown Error";
}

API int nvmlSystemGetDriverVersion(char *to, uint size)
    SYSTEM("nvmlSystemGetDriverVersion", code = text_out(to, size, world.driver);)
API int nvmlSystemGetNVMLVersion(char *to, uint size)
    SYSTEM("nvmlSystemGetNVMLVersion", code = text_out(to, size, world.nvml);)
API int nvmlSystemGetCudaDriverVersion(int *to) SYSTEM("nvmlSystemGetCudaDriverVersion", *to = world.cuda;)
API int nvmlSystemGetCudaDriverVersion_v2(int *to) SYSTEM("nvmlSystemGetCudaDriverVersion_v2", *to = world.cuda;)

static int count_out(const char *function, uint *to)
    SYSTEM(function, *to = (uint)(world.count >= 0 ? world.count : world.gpus);)
API int nvmlDeviceGetCount(uint *to) { return count_out("nvmlDeviceGetCount", to); }
API int nvmlDeviceGetCount_v2(uint *to) { return count_out("nvmlDeviceGetCount_v2", to); }

static int open_gpu(long i, void **to) {
    if (i < 0 || i >= world.gpus) return INVALID_ARGUMENT;
    if (world.gpu[i].handle) return world.gpu[i].handle;
    if (world.gpu[i].lost) return GPU_IS_LOST;
    *to = (void *)(i + 1);
    return SUCCESS;
}
static int by_index(const char *function, uint index, void **to) {
    pthread_mutex_lock(&lock);
    int code = enter(function, (int)index);
    if (!code) code = references && owner == getpid() ? open_gpu((long)index, to) : UNINITIALIZED;
    pthread_mutex_unlock(&lock);
    return code;
}
API int nvmlDeviceGetHandleByIndex(uint i, void **to) { return by_index("nvmlDeviceGetHandleByIndex", i, to); }
API int nvmlDeviceGetHandleByIndex_v2(uint i, void **to) { return by_index("nvmlDeviceGetHandleByIndex_v2", i, to); }

/* "0000:01:00.0" and "00000000:01:00.0" name the same device. */
static const char *short_pci(const char *id) { return strlen(id) == 16 ? id + 4 : id; }
static int by_pci(const char *function, const char *id, void **to)
    SYSTEM(function, code = NOT_FOUND; for (int i = 0; i < world.gpus; i++)
        if (!strcasecmp(short_pci(id), short_pci(world.gpu[i].pci))) code = open_gpu(i, to);)
API int nvmlDeviceGetHandleByPciBusId(const char *id, void **to) { return by_pci("nvmlDeviceGetHandleByPciBusId", id, to); }
API int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **to) { return by_pci("nvmlDeviceGetHandleByPciBusId_v2", id, to); }
API int nvmlDeviceGetHandleByUUID(const char *id, void **to)
    SYSTEM("nvmlDeviceGetHandleByUUID", code = NOT_FOUND; for (int i = 0; i < world.gpus; i++)
        if (!strcmp(id, world.gpu[i].uuid)) code = open_gpu(i, to);)

API int nvmlDeviceGetIndex(void *device, uint *to) DEVICE("nvmlDeviceGetIndex", *to = (uint)(g - world.gpu);)
API int nvmlDeviceGetMinorNumber(void *device, uint *to) DEVICE("nvmlDeviceGetMinorNumber", *to = (uint)(g - world.gpu);)
API int nvmlDeviceGetName(void *device, char *to, uint size) DEVICE("nvmlDeviceGetName", code = text_out(to, size, g->name);)
API int nvmlDeviceGetUUID(void *device, char *to, uint size) DEVICE("nvmlDeviceGetUUID", code = text_out(to, size, g->uuid);)
API int nvmlDeviceGetSerial(void *device, char *to, uint size) DEVICE("nvmlDeviceGetSerial", code = text_out(to, size, "0");)
API int nvmlDeviceGetBrand(void *device, uint *to) DEVICE("nvmlDeviceGetBrand", *to = 14;)
API int nvmlDeviceGetPciInfo_v3(void *device, pci_info_t *to) DEVICE("nvmlDeviceGetPciInfo_v3",
    uint domain = 0; uint bus = 0; uint dev = 0;
    if (sscanf(g->pci, "%x:%x:%x", &domain, &bus, &dev) != 3) code = NOT_SUPPORTED;
    else {
        memset(to, 0, sizeof *to);
        to->domain = domain; to->bus = bus; to->device = dev;
        to->pci_device_id = 0x233010de;
        snprintf(to->bus_id, sizeof to->bus_id, "%08X:%02X:%02X.0", domain, bus, dev);
        snprintf(to->bus_id_legacy, sizeof to->bus_id_legacy, "%04X:%02X:%02X.0", domain & 0xffff, bus & 0xff, dev & 0xff);
    })

API int nvmlDeviceGetUtilizationRates(void *device, utilization_t *to) DEVICE("nvmlDeviceGetUtilizationRates",
    segment_t s = util_at(g, now());
    if (s.absent) code = NOT_SUPPORTED;
    else { to->gpu = (uint)(ull)s.value; code = uint_out(&to->memory, g->memory_util, 1); })

#define ENGINE(function, n) \
    API int function(void *device, uint *to, uint *period) DEVICE(#function, *period = 166667; code = uint_out(to, g->engine[n], 1);)
ENGINE(nvmlDeviceGetEncoderUtilization, 0)
ENGINE(nvmlDeviceGetDecoderUtilization, 1)
ENGINE(nvmlDeviceGetJpgUtilization, 2)
ENGINE(nvmlDeviceGetOfaUtilization, 3)

/* The ring: one sample each 1/6 s of real time, the newest last; only GPU, memory, encoder and decoder use. */
static int samples(gpu_t *g, uint type, ull since, uint *value_type, uint *count, sample_t *to) {
    number_t flat = {0, 0};
    if (type == 2) flat = g->memory_util;
    else if (type == 3 || type == 4) flat = g->engine[type - 3];
    else if (type == 8 || type == 9) flat = g->engine[type - 6];
    else if (type != 1) return NOT_SUPPORTED;
    long newest = (long)(now() / SAMPLE_SECONDS), n = 0;
    int busy = 0;
    if (flat.absent || util_at(g, now()).absent) return NOT_SUPPORTED;
    *value_type = (uint)g->ring_type;
    if (!to) { *count = (uint)g->ring; return g->ring ? SUCCESS : NOT_FOUND; }
    for (long k = newest - g->ring + 1; k <= newest; k++) {
        double at = (double)k * SAMPLE_SECONDS, value = type == 1 ? util_at(g, at).value : flat.number;
        if ((ull)(at * 1e6) <= since) continue;
        if (n == (long)*count) return INSUFFICIENT_SIZE;
        memset(&to[n], 0, sizeof *to);
        to[n].timestamp = (ull)(at * 1e6);
        if (g->ring_type == 0) to[n].value.d = value;
        else to[n].value.ull_ = (ull)value;
        busy |= value > 0;
        n++;
    }
    *count = (uint)n;
    return n == 0 || (g->ring_dry && !busy) ? NOT_FOUND : SUCCESS;
}
API int nvmlDeviceGetSamples(void *device, uint type, ull since, uint *value_type, uint *count, sample_t *to)
    DEVICE("nvmlDeviceGetSamples", code = samples(g, type, since, value_type, count, to);)

API int nvmlDeviceGetPowerUsage(void *device, uint *to) DEVICE("nvmlDeviceGetPowerUsage", code = uint_out(to, g->power, 1000);)
API int nvmlDeviceGetPowerManagementLimit(void *device, uint *to) DEVICE("nvmlDeviceGetPowerManagementLimit", code = uint_out(to, g->limit, 1000);)
API int nvmlDeviceGetPowerManagementDefaultLimit(void *device, uint *to) DEVICE("nvmlDeviceGetPowerManagementDefaultLimit", code = uint_out(to, g->default_limit, 1000);)
API int nvmlDeviceGetEnforcedPowerLimit(void *device, uint *to) DEVICE("nvmlDeviceGetEnforcedPowerLimit", code = uint_out(to, g->limit, 1000);)
API int nvmlDeviceGetTotalEnergyConsumption(void *device, ull *to) DEVICE("nvmlDeviceGetTotalEnergyConsumption",
    if (g->energy.absent || g->power.absent) code = NOT_SUPPORTED;
    else *to = energy_now(g);)

API int nvmlDeviceGetMemoryInfo(void *device, memory_t *to) DEVICE("nvmlDeviceGetMemoryInfo",
    if (g->memory_used.absent) code = NOT_SUPPORTED;
    else {
        to->total = (ull)(g->memory_total.number * 1048576); to->used = (ull)(g->memory_used.number * 1048576);
        to->free = to->total - to->used;
    })
API int nvmlDeviceGetMemoryInfo_v2(void *device, memory_v2_t *to) DEVICE("nvmlDeviceGetMemoryInfo_v2",
    if (to->version != 0x02000028) code = VERSION_MISMATCH;
    else if (g->memory_used.absent) code = NOT_SUPPORTED;
    else {
        to->total = (ull)(g->memory_total.number * 1048576); to->used = (ull)(g->memory_used.number * 1048576);
        to->reserved = 0; to->free = to->total - to->used;
    })

/* Too small an array is answered with INSUFFICIENT_SIZE and the number wanted. */
static int processes(gpu_t *g, char kind, uint *count, void *to, size_t size) {
    uint room = *count, n = 0;
    for (int i = 0; i < g->processes; i++) n += g->process[i].kind == kind;
    *count = n;
    if (n == 0) return SUCCESS;
    if (!to || room < n) return INSUFFICIENT_SIZE;
    char *at = to;
    for (int i = 0; i < g->processes; i++) {
        process_t *p = &g->process[i];
        if (p->kind != kind) continue;
        ull used = p->absent_memory ? ~0ULL : (ull)(p->mib * 1048576);
        process_v2_t v2 = {p->pid, used, ~0U, ~0U};
        process_v1_t v1 = {p->pid, used};
        memcpy(at, size == sizeof v2 ? (void *)&v2 : (void *)&v1, size);
        at += size;
    }
    return SUCCESS;
}
#define PROCESSES(function, kind, type) \
    API int function(void *device, uint *count, type *to) DEVICE(#function, code = processes(g, kind, count, to, sizeof *to);)
PROCESSES(nvmlDeviceGetComputeRunningProcesses, 'c', process_v1_t)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses, 'g', process_v1_t)
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, 'c', process_v2_t)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, 'g', process_v2_t)
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2, 'm', process_v2_t)
#ifndef OLD_DRIVER
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, 'c', process_v2_t)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, 'g', process_v2_t)
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, 'm', process_v2_t)
#endif

API int nvmlDeviceGetProcessUtilization(void *device, process_sample_t *to, uint *count, ull since)
    DEVICE("nvmlDeviceGetProcessUtilization",
    uint room = *count; uint n = 0; ull at = (ull)(now() * 1e6); (void)since;
    for (int i = 0; i < g->processes; i++) {
        process_t *p = &g->process[i];
        if (!(p->sm | p->mem | p->enc | p->dec)) continue;
        if (to && n < room) to[n] = (process_sample_t){p->pid, at, p->sm, p->mem, p->enc, p->dec};
        n++;
    }
    *count = n;
    if (n == 0) code = NOT_FOUND;
    else if (!to || n > room) code = INSUFFICIENT_SIZE;)

static void field(gpu_t *g, field_t *f) {
    f->timestamp = (long long)(now() * 1e6);
    f->latency = 1;
    f->code = SUCCESS;
    f->value.ull_ = 0;
    if (f->field == 83 || f->field == 191) {
        f->value_type = 3;
        f->value.ull_ = energy_now(g);
        if (g->energy.absent || g->power.absent) f->code = NOT_SUPPORTED;
    } else if (f->field == 185 || f->field == 186) {
        f->value_type = 1;
        f->code = (uint)uint_out(&f->value.u, g->power, 1000);
    } else if (f->field == 230) f->value_type = 1;
    else {
        f->code = NOT_SUPPORTED;
        for (int i = 0; i < g->counters; i++) {
            if (g->counter[i].field != f->field) continue;
            /* PCIe counters have 32 bits; NVLink ones count KiB, and only the sum of all links is known here */
            int pcie = f->field == 197 || f->field == 198;
            ull value = (ull)(g->counter[i].value + (now() - g->counter[i].at) * g->counter[i].rate);
            f->code = pcie || f->scope == ~0U ? SUCCESS : INVALID_ARGUMENT;
            f->value_type = pcie ? 1 : 3;
            if (pcie) f->value.u = (uint)value;
            else f->value.ull_ = value;
        }
    }
}
API int nvmlDeviceGetFieldValues(void *device, int count, field_t *fields)
    DEVICE("nvmlDeviceGetFieldValues", for (int i = 0; i < count; i++) field(g, &fields[i]);)

API int nvmlDeviceGetMigMode(void *device, uint *current, uint *pending)
    DEVICE("nvmlDeviceGetMigMode", code = uint_out(current, g->mig, 1); *pending = *current;)
API int nvmlDeviceIsMigDeviceHandle(void *device, uint *to) DEVICE("nvmlDeviceIsMigDeviceHandle", (void)g; *to = 0;)
API int nvmlDeviceGetMaxMigDeviceCount(void *device, uint *to)
    DEVICE("nvmlDeviceGetMaxMigDeviceCount", *to = g->mig.absent ? 0 : 7;)
/* The handle of an instance is that of its GPU with the place of the instance above it. */
API int nvmlDeviceGetMigDeviceHandleByIndex(void *device, uint index, void **to)
    DEVICE("nvmlDeviceGetMigDeviceHandleByIndex",
    if (index >= (uint)g->instances) code = NOT_FOUND;
    else *to = (void *)((long)(g - world.gpu) + 1 + ((long)index + 1) * 4096);)
static int instance_number(void *whole, void *device, uint *to) {
    long place = ((long)whole >> 12) - 1;
    DEVICE("nvmlDeviceGetGpuInstanceId",
    if (place < 0 || place >= g->instances) code = NOT_FOUND;
    else *to = (uint)g->instance[place];)
}
API int nvmlDeviceGetGpuInstanceId(void *device, uint *to) { return instance_number(device, (void *)((long)device & 4095), to); }
API int nvmlDeviceGetPersistenceMode(void *device, uint *to)
    DEVICE("nvmlDeviceGetPersistenceMode", code = uint_out(to, g->persistence, 1);)
API int nvmlDeviceGetTemperature(void *device, uint sensor, uint *to)
    DEVICE("nvmlDeviceGetTemperature", (void)sensor; code = uint_out(to, g->temperature, 1);)
API int nvmlDeviceGetTemperatureV(void *device, temperature_t *to)
    DEVICE("nvmlDeviceGetTemperatureV", uint c = 0; code = uint_out(&c, g->temperature, 1); to->celsius = (int)c;)
API int nvmlDeviceGetClockInfo(void *device, uint type, uint *to)
    DEVICE("nvmlDeviceGetClockInfo", (void)type; code = uint_out(to, g->clock, 1);)
API int nvmlDeviceGetMaxClockInfo(void *device, uint type, uint *to)
    DEVICE("nvmlDeviceGetMaxClockInfo", (void)g; (void)type; *to = 1980;)
API int nvmlDeviceGetPerformanceState(void *device, uint *to) DEVICE("nvmlDeviceGetPerformanceState", (void)g; *to = 0;)
API int nvmlDeviceGetFanSpeed(void *device, uint *to) DEVICE("nvmlDeviceGetFanSpeed", (void)g; (void)to; code = NOT_SUPPORTED;)
API int nvmlDeviceGetComputeMode(void *device, uint *to) DEVICE("nvmlDeviceGetComputeMode", (void)g; *to = 0;)
API int nvmlDeviceGetDisplayActive(void *device, uint *to) DEVICE("nvmlDeviceGetDisplayActive", (void)g; *to = 0;)
API int nvmlDeviceGetDisplayMode(void *device, uint *to) DEVICE("nvmlDeviceGetDisplayMode", (void)g; *to = 0;)
API int nvmlDeviceGetDriverModel_v2(void *device, uint *current, uint *pending)
    DEVICE("nvmlDeviceGetDriverModel_v2", (void)g; (void)current; (void)pending; code = NOT_SUPPORTED;)
API int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor)
    DEVICE("nvmlDeviceGetCudaComputeCapability", (void)g; *major = 9; *minor = 0;)
API int nvmlDeviceGetTotalEccErrors(void *device, uint kind, uint counter, ull *to)
    DEVICE("nvmlDeviceGetTotalEccErrors", (void)g; (void)kind; (void)counter; (void)to; code = NOT_SUPPORTED;)
API int nvmlDeviceGetPcieThroughput(void *device, uint counter, uint *to)
    DEVICE("nvmlDeviceGetPcieThroughput", (void)g; (void)counter; *to = 0;)

/* ---- GPM (Hopper and later) -------------------------------------------------------------- */
API int nvmlGpmQueryDeviceSupport(void *device, gpm_support_t *to)
    DEVICE("nvmlGpmQueryDeviceSupport", if (to->version != 1) code = VERSION_MISMATCH; else to->supported = (uint)g->gpm;)
API int nvmlGpmSampleAlloc(gpm_sample_t **to) SYSTEM("nvmlGpmSampleAlloc", *to = calloc(1, sizeof **to);)
API int nvmlGpmSampleFree(gpm_sample_t *sample) SYSTEM("nvmlGpmSampleFree", free(sample);)
API int nvmlGpmSampleGet(void *device, gpm_sample_t *to) DEVICE("nvmlGpmSampleGet",
    if (!g->gpm) code = NOT_SUPPORTED;
    else { to->gpu = (int)(g - world.gpu); to->at = now(); to->instance = -1; })
API int nvmlGpmMigSampleGet(void *device, uint instance, gpm_sample_t *to) DEVICE("nvmlGpmMigSampleGet",
    int found = 0;
    for (int i = 0; i < g->instances; i++) found |= g->instance[i] == (int)instance;
    if (!g->gpm) code = NOT_SUPPORTED;
    else if (!found) code = INVALID_ARGUMENT;
    else { to->gpu = (int)(g - world.gpu); to->at = now(); to->instance = (int)instance; })
API int nvmlGpmMetricsGet(gpm_get_t *get) SYSTEM("nvmlGpmMetricsGet",
    const gpm_sample_t *a = get->first;
    const gpm_sample_t *b = get->second;
    if (get->version != 1) code = VERSION_MISMATCH;
    else if (!a || !b || b->at - a->at < 0.1 || a->gpu != b->gpu || a->instance != b->instance) code = INVALID_ARGUMENT;
    else for (uint i = 0; i < get->count; i++) {
        gpm_metric_t *m = &get->metrics[i];
        const gpu_t *g = &world.gpu[b->gpu];
        m->code = NOT_SUPPORTED;
        for (int k = 0; k < g->metrics; k++)
            if (g->metric[k].id == m->id && g->metric[k].instance == b->instance) {
                m->code = SUCCESS; m->value = g->metric[k].value;
            }
        if (m->code || b->instance >= 0) continue;
        /* whatever runs keeps one of the 132 SMs busy; no two times do driver and board say quite as much */
        if (m->id == 2 && m->value >= 0 && !util_at(g, b->at).absent) m->value = fmax(m->value, util_mean(g, a->at, b->at) / 132);
        if (m->id == 20) m->value *= 1 + 1e-4 * fmod(b->at, 1.7);
    })
