/* A job of several ranks for tests of `nccl-stacks record`: it starts a process per rank, as torchrun does, which call NCCL and wait for each
 * other in every collective. Where NCCL would load a profiler plugin and report to it, this program does, through version 5 of the interface.
 *
 *   job RANKS STEPS               all do the same
 *   job RANKS STEPS late:R:US     rank R comes so many microseconds late to every all-reduce
 *   job RANKS STEPS out:R:STEP    rank R does not call the all-reduce of this step; after a second all processes are killed
 *   job RANKS STEPS all:0:0       one process has all ranks, by ncclCommInitAll
 *   job RANKS STEPS stay:R:STEP   the same, but nobody is killed: it goes on until somebody else does it
 */
#define _GNU_SOURCE
#include "fake_nccl.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { COUNT = 1 << 20, CHANNELS = 2, BFLOAT16 = 9, SUM = 0 };
/* NCCL's hash of an id of which each byte is 7, by a program of its own. */
static const uint64_t HASH = 0x2258c19d731308eb;

typedef struct {
    const char *name;
    int (*init)(void **context, uint64_t id, int *mask, const char *name, int nodes, int ranks, int rank, P log);
    int (*start)(void *context, void **handle, void *descriptor);
    int (*stop)(void *handle);
    int (*state)(void *handle, int state, void *arguments);
    int (*finalize)(void *context);
} Plugin;

/* Descriptors of version 5: the head, then what the type has from byte 24 on. */
typedef struct { uint64_t type; void *parent; int rank; uint64_t words[11]; } Descriptor;

typedef struct { atomic_int arrived[4096]; atomic_llong last[4096]; } Shared;

static int64_t now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000ll + time.tv_nsec;
}

static Plugin *plugin;
static void *context;

static void *begin(uint64_t type, void *parent, int rank, uint64_t *words, int count) {
    if (!plugin) return NULL;
    Descriptor descriptor = {.type = type, .parent = parent, .rank = rank};
    memcpy(descriptor.words, words, count * sizeof *words);
    void *handle = NULL;
    plugin->start(context, &handle, &descriptor);
    return handle;
}

static void end(void *handle) {
    if (plugin && handle) plugin->stop(handle);
}

/* An all-reduce that ends when all ranks have come. */
static void all_reduce(Shared *shared, P comm, int ranks, int rank, int step) {
    char data[8];
    ncclAllReduce(data, data, COUNT, BFLOAT16, SUM, comm, (P)0x7001);
    void *api = begin(256, NULL, 0, (uint64_t[]){1ull << 32}, 1);
    if (plugin) plugin->state(api, 23, NULL);
    uint64_t call[] = {(uintptr_t)"AllReduce", COUNT, (uintptr_t)"ncclBfloat16", 0, 0x7001, 0};
    void *of_call = begin(512, api, 0, call, 6);
    end(of_call);
    if (plugin) plugin->state(api, 24, NULL);
    uint64_t words[] = {step, (uintptr_t)"AllReduce", 0, 0, COUNT, 0, (uintptr_t)"ncclBfloat16", CHANNELS | 16 << 8,
                        (uintptr_t)"RING", (uintptr_t)"SIMPLE", 0};
    void *coll = begin(2, of_call, rank, words, 11);
    end(coll);
    end(api);
    void *channels[CHANNELS];
    for (uint64_t channel = 0; channel < CHANNELS; channel++)
        channels[channel] = begin(64, coll, 0, (uint64_t[]){channel, now(CLOCK_REALTIME)}, 2);
    if (atomic_fetch_add(&shared->arrived[step], 1) + 1 == ranks) atomic_store(&shared->last[step], now(CLOCK_REALTIME) + 20000);
    long long last;
    while (!(last = atomic_load(&shared->last[step])) || now(CLOCK_REALTIME) < last) usleep(20);
    for (int channel = 0; channel < CHANNELS; channel++) {
        uint64_t stopped = last;
        if (plugin && channels[channel]) plugin->state(channels[channel], 22, &stopped);
        end(channels[channel]);
    }
}

/* All ranks in this process. None waits for another, for there is one thread. */
static void work_alone(int ranks, int steps) {
    static Shared shared;
    P comms[64];
    void *contexts[64];
    int mask = 0;
    if (ncclCommInitAll(comms, ranks, NULL)) exit(8);
    const char *asked = getenv("NCCL_PROFILER_PLUGIN");
    void *library = asked ? dlopen(strcmp(asked, "STATIC_PLUGIN") ? asked : NULL, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (library) plugin = dlsym(library, "ncclProfiler_v5");
    for (int rank = 0; plugin && rank < ranks; rank++) plugin->init(&contexts[rank], HASH, &mask, "world", 1, ranks, rank, NULL);
    for (int step = 0; step < steps; step++) {
        for (int rank = 0; rank < ranks; rank++) {
            context = contexts[rank];
            all_reduce(&shared, comms[rank], 1, rank, step * ranks + rank);
        }
    }
}

static void work(Shared *shared, int ranks, int rank, int steps, const char *mode, int of_rank, int number) {
    Id id;
    memset(&id, 7, sizeof id);
    P comm;
    if (ncclCommInitRank(&comm, ranks, id, rank)) exit(8);
    const char *asked = getenv("NCCL_PROFILER_PLUGIN");
    void *library = asked ? dlopen(strcmp(asked, "STATIC_PLUGIN") ? asked : NULL, RTLD_NOW | RTLD_LOCAL) : NULL;
    int mask = 0;
    if (library) plugin = dlsym(library, "ncclProfiler_v5");
    if (plugin && plugin->init(&context, HASH, &mask, "world", 1, ranks, rank, NULL)) plugin = NULL;
    if (!mask) plugin = NULL;
    for (int step = 0; step < steps; step++) {
        if (rank == of_rank && step == number && (!strcmp(mode, "out") || !strcmp(mode, "stay"))) pause();
        if (rank == of_rank && !strcmp(mode, "late")) usleep(number);
        all_reduce(shared, comm, ranks, rank, step);
    }
    if (plugin) plugin->finalize(context);
    ncclCommDestroy(comm);
}

int main(int count, char **arguments) {
    if (count < 3) return 9;
    int ranks = atoi(arguments[1]), steps = atoi(arguments[2]), of_rank = -1, number = 0;
    char mode[16] = "";
    if (count > 3) sscanf(arguments[3], "%15[a-z]:%d:%d", mode, &of_rank, &number);
    if (!strcmp(mode, "all")) {
        work_alone(ranks, steps);
        return 0;
    }
    const char *shared_file = getenv("JOB_SHARED");
    if (shared_file) {
        Shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, open(shared_file, O_RDWR), 0);
        work(shared, ranks, atoi(getenv("RANK")), steps, mode, of_rank, number);
        return 0;
    }
    char file[] = "/tmp/nccl-stacks-job-XXXXXX";
    if (ftruncate(mkstemp(file), sizeof(Shared))) return 9;
    setenv("JOB_SHARED", file, 1);
    pid_t children[64];
    for (int rank = 0; rank < ranks; rank++) {
        if ((children[rank] = fork())) continue;
        char text[16];
        snprintf(text, sizeof text, "%d", rank);
        setenv("RANK", text, 1);
        snprintf(text, sizeof text, "%d", ranks);
        setenv("WORLD_SIZE", text, 1);
        execv("/proc/self/exe", arguments);
        _exit(9);
    }
    if (!strcmp(mode, "out")) {
        sleep(1);
        for (int rank = 0; rank < ranks; rank++) kill(children[rank], SIGKILL);
    }
    int bad = 0, status;
    while (wait(&status) > 0) bad |= status;
    unlink(file);
    return bad != 0;
}
