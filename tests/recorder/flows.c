/* A program that was written for the flow extractor: it calls the extractor's two functions if the process has them, and runs as well without.
 * It is one of two ranks. Where NCCL would load a profiler plugin and report to it, it does, through version 5 of the interface, and only what the
 * plugin asks for.
 *
 *   flows RANK          all-reduce, sends and receives, an all-reduce that is not extracted, another one; then the flows are written
 *   flows RANK nothing  no operation
 *   flows RANK calls    the same, and no plugin is notified
 *   flows RANK known    the same, and no handle is handed over that is none
 */
#define _GNU_SOURCE
#include "fake_nccl.h"
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int ncclSetFlowExtractionEnabled(int enabled) __attribute__((weak));
int ncclWriteAggregatedFlow(P comm) __attribute__((weak));

enum { GROUP_API = 256, COLL_API = 512, P2P_API = 1024, COLL = 2, P2P = 4, PROXY_OP = 8, PROXY_STEP = 16 };
enum { FLOAT = 7, MAX = 2, AVG = 4 };
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
typedef struct { uint64_t type; void *parent; int rank; uint64_t words[11]; } Descriptor;

static Plugin *plugin;
static void *context;
static int mask, rank, other;

static void *begin(uint64_t type, void *parent, const uint64_t *words, int count) {
    void *handle = NULL;
    /* What an operation belongs to is reported with it. */
    uint64_t wanted = type < GROUP_API ? type : COLL | P2P;
    if (!plugin || !(mask & wanted)) return NULL;
    Descriptor descriptor = {.type = type, .parent = parent, .rank = rank};
    memcpy(descriptor.words, words, count * sizeof *words);
    plugin->start(context, &handle, &descriptor);
    return handle;
}
static void state(void *handle, int number, uint64_t value) { if (handle) plugin->state(handle, number, &value); }
static void end(void *handle) { if (handle) plugin->stop(handle); }

/* A proxy's work: so many transfers to or from the other rank. */
static void proxy(void *of, int channel, int is_send, int transfers, uint64_t chunk) {
    uint64_t words[] = {(uint64_t)getpid() | (uint64_t)channel << 32, (uint64_t)other | (uint64_t)transfers << 32, chunk | (uint64_t)is_send << 32};
    void *op = begin(PROXY_OP, of, words, 3);
    state(op, 19, 0);
    for (uint64_t number = 0; number < (uint64_t)transfers; number++) {
        void *step = begin(PROXY_STEP, op, &number, 1);
        if (is_send) { state(step, 8, 0); state(step, 20, 0); state(step, 9, chunk - number); }
        else { state(step, 10, 0); state(step, 11, chunk - number); state(step, 12, 0); }
        end(step);
    }
    end(op);
}

static void *of_call(uint64_t type, const uint64_t *words, int count) {
    uint64_t depth = 1ull << 32;
    void *group = begin(GROUP_API, NULL, &depth, 1);
    void *api = begin(type, group, words, count);
    end(api);
    end(group);
    return api;
}

static void *all_reduce(P comm, int reduction, const char *algorithm, const char *protocol) {
    static uint64_t number;
    char data[8];
    ncclAllReduce(data, data, 1000, FLOAT, reduction, comm, (P)0x7001);
    uint64_t call[] = {(uintptr_t)"AllReduce", 1000, (uintptr_t)"ncclFloat32", 0, 0x7001, 0};
    void *api = of_call(COLL_API, call, 6);
    uint64_t words[] = {number++, (uintptr_t)"AllReduce", 0, 0, 1000, 0, (uintptr_t)"ncclFloat32", 1 | 16 << 8, (uintptr_t)algorithm, (uintptr_t)protocol, 0};
    void *coll = begin(COLL, api, words, 11);
    end(coll);
    return coll;
}

static void transfer(P comm, int is_send) {
    char data[8];
    if (is_send) ncclSend(data, 50, FLOAT, other, comm, (P)0x7002);
    else ncclRecv(data, 50, FLOAT, other, comm, (P)0x7002);
    uint64_t name = (uintptr_t)(is_send ? "Send" : "Recv");
    uint64_t call[] = {name, 50, (uintptr_t)"ncclFloat32", 0x7002, 0};
    void *api = of_call(P2P_API, call, 5);
    uint64_t words[] = {name, 0, (uintptr_t)"ncclFloat32", 50, (uint64_t)other | 1ull << 32, 0};
    void *p2p = begin(P2P, api, words, 6);
    end(p2p);
    proxy(p2p, 2, is_send, 2, 1024);
}

static void extract(int enabled) {
    if (ncclSetFlowExtractionEnabled && ncclSetFlowExtractionEnabled(enabled)) exit(7);
}

int main(int count, char **arguments) {
    if (count < 2) return 9;
    const char *mode = count > 2 ? arguments[2] : "";
    rank = atoi(arguments[1]);
    other = 1 - rank;
    Id id;
    memset(&id, 7, sizeof id);
    P comm;
    if (ncclCommInitRank(&comm, 2, id, rank)) return 8;
    const char *asked = getenv("NCCL_PROFILER_PLUGIN");
    void *library = asked && strcmp(mode, "calls") ? dlopen(strcmp(asked, "STATIC_PLUGIN") ? asked : NULL, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (library) plugin = dlsym(library, "ncclProfiler_v5");
    if (plugin && plugin->init(&context, HASH, &mask, "world", 1, 2, rank, NULL)) plugin = NULL;
    if (strcmp(mode, "nothing")) {
        /* A loop over the data of two ranks is two times four steps, so four transfers. */
        void *coll = all_reduce(comm, MAX, "RING", "SIMPLE");
        proxy(coll, 0, 1, 4, 65536);
        proxy(coll, 0, 0, 4, 65536);
        /* Rank 0 sends, receives and sends again; rank 1 sends, and then receives both. */
        transfer(comm, 1);
        transfer(comm, 0);
        transfer(comm, rank == 0);
        extract(0);
        proxy(all_reduce(comm, MAX, "RING", "SIMPLE"), 0, 1, 4, 65536);
        extract(1);
        /* Rank 0 is the root of the tree: rank 1 sends first. */
        coll = all_reduce(comm, AVG, "TREE", "LL");
        proxy(coll, 1, rank == 1, 1, 512);
        proxy(coll, 1, rank == 0, 1, 512);
    }
    if (ncclWriteAggregatedFlow) {
        /* The made NCCL stops a process that hands it no communicator, and a patched one would read it. */
        int none = ncclWriteAggregatedFlow(NULL), unknown = strcmp(mode, "known") ? ncclWriteAggregatedFlow((P)&id) : 4;
        printf("%d %d %d\n", none, unknown, ncclWriteAggregatedFlow(comm));
    } else {
        printf("no extractor\n");
    }
    if (plugin) plugin->finalize(context);
    ncclCommDestroy(comm);
    return 0;
}
