/* A stand-in for NVIDIA's libnvidia-ml.so.1: it says what the file named by NVML_STAND_IN says. For tests on machines without a GPU.
 *
 * The file is looked at before each call and read again when it changed. A line each:
 *   gpu INDEX UUID BUSY USED TOTAL POWER LIMIT TEMPERATURE SM MEMORY ECC NAME   numbers as NVML gives them, -1 = not supported
 *   process INDEX PID SM BYTES      uses GPU INDEX; SM in percent, -1 = no sample of it
 *   mps INDEX PID SM BYTES          uses GPU INDEX through MPS
 *   instance INDEX NUMBER UUID USED TOTAL   makes GPU INDEX a divided one
 *   member INDEX NUMBER PID BYTES   uses that instance
 *   lost INDEX                      the GPU has fallen off the bus
 *   xid INDEX CODE SERIAL           an event, told once for each serial number
 *   shift MICROSECONDS              what the driver's clock differs from the machine's
 *   hang                            calls block as long as this stands here
 *   driver none                     the driver is not loaded
 * Compiled with -DOLD it lacks the calls that drivers before 510 lack, and those for events, samples and instances. With -DEARLY_535 its
 * current lists of processes have larger entries, as those of drivers 535.43 to 535.98.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef int Return;
enum { SUCCESS = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, NO_DRIVER = 9, TIMEOUT = 10, LOST = 15 };
enum { GPUS = 16, INSTANCES = 8, USERS = 512 };
typedef unsigned long long u64;
typedef void *Device; /* (GPU + 1) * 256 + instance + 1, or + 0 for all of it */

struct gpu {
    int exists, lost, divided;
    char uuid[80], name[96];
    long long busy, used, total, power, limit, temperature, sm, memory, ecc;
    struct instance {
        int exists;
        char uuid[80];
        long long used, total;
    } instances[INSTANCES];
    struct user {
        unsigned pid;
        int instance, sm;
        u64 bytes;
        int mps;
    } users[USERS];
    int user_count;
    long xid, xid_serial;
};

static struct gpu gpus[GPUS];
static long long shift;
static int hang, no_driver;

static void read_script(FILE *file) {
    char line[512];
    memset(gpus, 0, sizeof gpus);
    shift = hang = no_driver = 0;
    while (fgets(line, sizeof line, file)) {
        int at, number, sm;
        unsigned pid;
        u64 bytes;
        struct gpu g = {0};
        struct instance i = {0};
        long code, serial;
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "gpu %d %79s %lld %lld %lld %lld %lld %lld %lld %lld %lld %95[^\n]", &at, g.uuid, &g.busy, &g.used,
                   &g.total, &g.power, &g.limit, &g.temperature, &g.sm, &g.memory, &g.ecc, g.name) == 12 && at < GPUS) {
            g.exists = 1;
            gpus[at] = g;
        } else if (sscanf(line, "process %d %u %d %llu", &at, &pid, &sm, &bytes) == 4 && gpus[at].user_count < USERS) {
            gpus[at].users[gpus[at].user_count++] = (struct user){pid, -1, sm, bytes, 0};
        } else if (sscanf(line, "mps %d %u %d %llu", &at, &pid, &sm, &bytes) == 4 && gpus[at].user_count < USERS) {
            gpus[at].users[gpus[at].user_count++] = (struct user){pid, -1, sm, bytes, 1};
        } else if (sscanf(line, "instance %d %d %79s %lld %lld", &at, &number, i.uuid, &i.used, &i.total) == 5) {
            i.exists = 1;
            gpus[at].instances[number] = i;
            gpus[at].divided = 1;
        } else if (sscanf(line, "member %d %d %u %llu", &at, &number, &pid, &bytes) == 4) {
            gpus[at].users[gpus[at].user_count++] = (struct user){pid, number, -1, bytes, 0};
        } else if (sscanf(line, "lost %d", &at) == 1) {
            gpus[at].lost = 1;
        } else if (sscanf(line, "xid %d %ld %ld", &at, &code, &serial) == 3) {
            gpus[at].xid = code;
            gpus[at].xid_serial = serial;
        } else if (sscanf(line, "shift %lld", &shift) == 1) {
        } else if (strcmp(line, "hang") == 0) {
            hang = 1;
        } else if (strcmp(line, "driver none") == 0) {
            no_driver = 1;
        } else if (line[0]) {
            fprintf(stderr, "the stand-in for NVML does not understand: %s\n", line);
            abort();
        }
    }
}

static void look(void) {
    static struct stat before;
    const char *path = getenv("NVML_STAND_IN");
    if (!path) abort();
    do {
        struct stat now;
        if (hang) usleep(50000);
        if (stat(path, &now)) abort();
        if (now.st_ino == before.st_ino && now.st_mtim.tv_nsec == before.st_mtim.tv_nsec && now.st_size == before.st_size) continue;
        FILE *file = fopen(path, "r");
        if (!file) abort();
        read_script(file);
        fclose(file);
        before = now;
    } while (hang);
}

/* The GPU of a device, looked up afresh; answers for it when it is gone. */
#define GPU(device)                                                 \
    look();                                                         \
    long number = (long)(device) % 256 - 1;                         \
    struct gpu *gpu = &gpus[(long)(device) / 256 - 1];              \
    (void)number;                                                   \
    if (gpu->lost) return LOST;                                     \
    if (!gpu->exists) return INVALID
#define NUMBER(call, type, field)                                   \
    Return call(Device device, type *out) {                         \
        GPU(device);                                                \
        if (gpu->field < 0 || number >= 0) return NOT_SUPPORTED;    \
        *out = gpu->field;                                          \
        return SUCCESS;                                             \
    }

#ifndef OLD
/* Begins a day before the machine, so that it can be set back on one that has just booted. */
static u64 now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (u64)((long long)(now.tv_sec + 86400) * 1000000 + now.tv_nsec / 1000 + shift);
}
#endif

Return nvmlInit_v2(void) {
    look();
    return no_driver ? NO_DRIVER : SUCCESS;
}
Return nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(Return code) { return code == LOST ? "GPU is lost" : "stand-in"; }
Return nvmlSystemGetDriverVersion(char *out, unsigned length) {
#ifdef EARLY_535
    snprintf(out, length, "535.86.05");
#else
    snprintf(out, length, "550.54.15");
#endif
    return SUCCESS;
}
Return nvmlDeviceGetCount_v2(unsigned *count) {
    look();
    for (*count = 0; *count < GPUS && gpus[*count].exists; ++*count) {}
    return SUCCESS;
}
Return nvmlDeviceGetHandleByIndex_v2(unsigned index, Device *device) {
    look();
    if (index >= GPUS || !gpus[index].exists) return INVALID;
    if (gpus[index].lost) return LOST;
    *device = (Device)(long)((index + 1) * 256);
    return SUCCESS;
}
Return nvmlDeviceGetUUID(Device device, char *out, unsigned length) {
    GPU(device);
    snprintf(out, length, "%s", number < 0 ? gpu->uuid : gpu->instances[number].uuid);
    return SUCCESS;
}
Return nvmlDeviceGetName(Device device, char *out, unsigned length) {
    GPU(device);
    snprintf(out, length, "%s", gpu->name);
    return SUCCESS;
}
Return nvmlDeviceGetUtilizationRates(Device device, unsigned out[2]) {
    GPU(device);
    if (gpu->busy < 0 || gpu->divided) return NOT_SUPPORTED;
    out[0] = gpu->busy;
    out[1] = 0;
    return SUCCESS;
}
NUMBER(nvmlDeviceGetPowerUsage, unsigned, power)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, unsigned, limit)
Return nvmlDeviceGetTemperature(Device device, int sensor, unsigned *out) {
    GPU(device);
    if (gpu->temperature < 0 || sensor != 0) return NOT_SUPPORTED;
    *out = gpu->temperature;
    return SUCCESS;
}
Return nvmlDeviceGetClockInfo(Device device, int of, unsigned *out) {
    GPU(device);
    long long clock = of == 1 ? gpu->sm : of == 2 ? gpu->memory : -1;
    if (clock < 0) return NOT_SUPPORTED;
    *out = clock;
    return SUCCESS;
}
Return nvmlDeviceGetTotalEccErrors(Device device, int kind, int counter, u64 *out) {
    GPU(device);
    if (gpu->ecc < 0 || kind != 1 || counter != 0) return NOT_SUPPORTED;
    *out = gpu->ecc;
    return SUCCESS;
}

struct holder {
    unsigned pid;
    u64 bytes;
    unsigned instance, compute;
    u64 confidential; /* only in larger entries */
};
enum { DECLARED = offsetof(struct holder, confidential) };
#ifdef EARLY_535
enum { CURRENT = sizeof(struct holder) };
#else
enum { CURRENT = DECLARED };
#endif
static Return holders(Device device, unsigned *room, char *out, unsigned size, int mps) {
    GPU(device);
    unsigned found = 0;
    for (int i = 0; i < gpu->user_count; i++) {
        struct user *user = &gpu->users[i];
        if (user->instance != number || user->mps != mps) continue;
        struct holder entry = {user->pid, user->bytes, user->instance, 0, 0};
        if (out && found < *room) memcpy(out + (size_t)found * size, &entry, size);
        found++;
    }
    int fits = out && found <= *room;
    *room = found;
    return fits || !found ? SUCCESS : TOO_SMALL;
}
static Return none(unsigned *room) {
    *room = 0;
    return SUCCESS;
}

Return nvmlDeviceGetComputeRunningProcesses_v2(Device device, unsigned *room, void *out) {
    return holders(device, room, out, DECLARED, 0);
}
Return nvmlDeviceGetGraphicsRunningProcesses_v2(Device device, unsigned *room, void *out) {
    (void)device, (void)out;
    return none(room);
}
#ifndef OLD
Return nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned *room, void *out) {
    return holders(device, room, out, CURRENT, 0);
}
/* Who computes draws as well: the same numbers once more. */
Return nvmlDeviceGetGraphicsRunningProcesses_v3(Device device, unsigned *room, void *out) {
    return (long)device / 256 == 1 ? holders(device, room, out, CURRENT, 0) : none(room);
}
Return nvmlDeviceGetMPSComputeRunningProcesses_v3(Device device, unsigned *room, void *out) {
    return (long)device % 256 ? NOT_SUPPORTED : holders(device, room, out, CURRENT, 1);
}

enum { RESERVED = 512 << 20 }; /* of a whole GPU, for the driver */
struct memory {
    unsigned version;
    u64 total, reserved, free, used;
};
Return nvmlDeviceGetMemoryInfo_v2(Device device, struct memory *out) {
    GPU(device);
    long long used = number < 0 ? gpu->used : gpu->instances[number].used;
    long long total = number < 0 ? gpu->total : gpu->instances[number].total;
    if (used < 0) return NOT_SUPPORTED;
    if (out->version != (sizeof *out | 2 << 24)) return INVALID;
    long long reserved = number < 0 ? RESERVED : 0;
    *out = (struct memory){out->version, total, reserved, total - reserved - used, used};
    return SUCCESS;
}

struct sample {
    u64 at, value;
};
Return nvmlDeviceGetSamples(Device device, int of, u64 last, int *type, unsigned *room, struct sample *out) {
    GPU(device);
    if (of != 1 || gpu->busy < 0 || gpu->divided) return NOT_SUPPORTED;
    if (now_us() <= last) return NOT_FOUND;
    *type = 1;
    if (out) *out = (struct sample){now_us(), gpu->busy};
    *room = 1;
    return SUCCESS;
}

struct use {
    unsigned pid;
    u64 at;
    unsigned sm, memory, encoder, decoder;
};
Return nvmlDeviceGetProcessUtilization(Device device, struct use *out, unsigned *room, u64 last) {
    GPU(device);
    if (gpu->divided) return NOT_SUPPORTED;
    if (now_us() <= last) return NOT_FOUND;
    unsigned found = 0;
    for (int i = 0; i < gpu->user_count; i++) {
        struct user *user = &gpu->users[i];
        if (user->sm < 0) continue;
        if (out && found < *room) out[found] = (struct use){user->pid, now_us(), user->sm, 0, 0, 0};
        found++;
    }
    int fits = out && found <= *room;
    *room = found;
    return !found ? NOT_FOUND : fits ? SUCCESS : TOO_SMALL;
}

Return nvmlDeviceGetMigMode(Device device, unsigned *current, unsigned *pending) {
    GPU(device);
    *current = *pending = gpu->divided;
    return SUCCESS;
}
Return nvmlDeviceGetMaxMigDeviceCount(Device device, unsigned *count) {
    GPU(device);
    *count = INSTANCES;
    return SUCCESS;
}
Return nvmlDeviceGetMigDeviceHandleByIndex(Device device, unsigned index, Device *out) {
    GPU(device);
    if (index >= INSTANCES || !gpu->instances[index].exists) return NOT_FOUND;
    *out = (Device)((long)device + index + 1);
    return SUCCESS;
}

enum { XID = 8 };
struct set {
    Device device;
    long told;
};
struct event {
    Device device;
    u64 kind, data;
    unsigned instance, compute;
};
Return nvmlDeviceGetSupportedEventTypes(Device device, u64 *out) {
    GPU(device);
    *out = XID;
    return SUCCESS;
}
Return nvmlEventSetCreate(struct set **set) {
    *set = calloc(1, sizeof **set);
    return SUCCESS;
}
Return nvmlDeviceRegisterEvents(Device device, u64 kinds, struct set *set) {
    GPU(device);
    if (kinds != XID) return INVALID;
    *set = (struct set){device, gpu->xid_serial};
    return SUCCESS;
}
Return nvmlEventSetWait_v2(struct set *set, struct event *out, unsigned timeout_ms) {
    GPU(set->device);
    (void)timeout_ms;
    if (gpu->xid_serial == set->told) return TIMEOUT;
    set->told = gpu->xid_serial;
    *out = (struct event){set->device, XID, gpu->xid, -1, -1};
    return SUCCESS;
}
Return nvmlEventSetFree(struct set *set) {
    free(set);
    return SUCCESS;
}
#endif
