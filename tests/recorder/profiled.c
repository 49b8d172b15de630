/* Plays NCCL for the profiler plugin that is loaded, if one is, as the stress driver's threads: events of all types, whose parents and whose
 * ends are of other threads, were stopped before, belong to the process that this one was forked from, or were never there.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

struct plugin {
    const char *name;
    int (*init)(void **context, uint64_t id, int *mask, const char *name, int nodes, int ranks, int rank, void *log);
    int (*start)(void *context, void **handle, void *descriptor);
    int (*stop)(void *handle);
    int (*state)(void *handle, int state, void *arguments);
    int (*finalize)(void *context);
};

/* A descriptor of version 5: the head, then what the type has from byte 24 on. */
struct descriptor { uint64_t type; void *parent; uint64_t rank, words[11]; };

enum { HANDLES = 64, EVENTS = 300 };
static void *handles[HANDLES];

static uint64_t next(uint64_t *random) {
    *random = *random * 6364136223846793005ull + 1442695040888963407ull;
    return *random >> 33;
}

static void describe(struct descriptor *descriptor, uint64_t n) {
    const uint64_t function = (uintptr_t)"AllReduce", dtype = (uintptr_t)"ncclFloat32", ring = (uintptr_t)"RING", simple = (uintptr_t)"SIMPLE";
    static uint64_t network[8];
    const uint64_t pid = getpid() + (n % 8 == 0), head = 1 | n % 4 << 32;
    const uint64_t words[12][11] = {
        {0}, {n, function, 0, 0, n, 0, dtype, 2 | 16 << 8, ring, simple, 0}, {function, 0, dtype, n, head, 0}, {pid | n % 4 << 32, 1 | 8ull << 32, 4096 | 1ull << 32},
        {n}, {0}, {n % 4, n}, {(n % 2 + 1) << 16 | 1, (uintptr_t)network}, {head}, {function, n, dtype, 0, 81}, {function, n, dtype, 81}, {81},
    };
    memcpy(descriptor->words, words[__builtin_ctzll(descriptor->type)], sizeof descriptor->words);
}

void *profile(void *seed) {
    static const int states[] = {8, 9, 10, 11, 12, 13, 17, 18, 19, 20, 21, 22, 23, 24, 99};
    struct plugin *plugin = dlsym(RTLD_DEFAULT, "ncclProfiler_v5");
    uint64_t random = (uintptr_t)seed, value = 1;
    void *context = NULL;
    int mask = 0;
    if (!plugin || plugin->init(&context, next(&random), &mask, next(&random) % 2 ? "group" : NULL, 1, 8, 3, NULL) || !context) return NULL;
    for (int i = 0; i < EVENTS; i++) {
        void **place = &handles[next(&random) % HANDLES], *made = NULL;
        void *other = __atomic_load_n(&handles[next(&random) % HANDLES], __ATOMIC_RELAXED);
        struct descriptor descriptor = {.type = 1 << next(&random) % 12, .parent = next(&random) % 4 ? other : NULL, .rank = 3};
        describe(&descriptor, next(&random));
        plugin->start(context, &made, &descriptor);
        if (made) __atomic_store_n(place, made, __ATOMIC_RELAXED);
        if (other && next(&random) % 2) plugin->state(other, states[next(&random) % 15], next(&random) % 2 ? &value : NULL);
        if (other && next(&random) % 2) plugin->stop(other);
    }
    plugin->finalize(context);
    return NULL;
}
