/* Calls the profiler code of real NCCL 2.32.3 without a GPU.

   A communicator cannot be made without a driver, so NCCL's public functions never come to its profiler. Its own functions for that need
   little of a communicator: they are called here at the addresses of NCCL's symbol table (`symbols.h`, made by the test), with structures
   of zeros in which the few fields are set that they read, at the offsets of NCCL's debugging information. The order of events is this
   program's, not NCCL's; what is NCCL's is how it looks for a plugin, calls it, fills in descriptors, adapts them to older versions, and
   unloads it. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "symbols.h"

static char *base;

#define AT(name, result, ...) ((result(*)(__VA_ARGS__))(base + AT_##name))
#define SET(structure, at, type, value) (*(type *)((char *)(structure) + (at)) = (value))
#define GET(structure, at, type) (*(type *)((char *)(structure) + (at)))
#define WELL(call)                                                                                                    \
    do {                                                                                                              \
        int result = (call);                                                                                          \
        if (result != 0) {                                                                                            \
            printf("%s: %d\n", #call, result);                                                                        \
            exit(1);                                                                                                  \
        }                                                                                                             \
    } while (0)

typedef void *(*last_handle)(int type);
static last_handle last;

/* The handle of the event that was started last, of a type: the shim knows it. NCCL keeps those of the API in thread-local memory. */
static void *handle_of(int type) {
    return last == NULL ? NULL : last(type);
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    void *nccl = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (nccl == NULL) {
        printf("%s\n", dlerror());
        return 1;
    }
    char *known = dlsym(nccl, "pncclGetVersion");
    int version = 0;
    if (known == NULL || ((int (*)(int *))known)(&version) != 0) return 1;
    printf("version %d\n", version);
    if (version != 23203 || count < 3) return 0;
    base = known - AT_pncclGetVersion;

    char *comm = calloc(1, 1196536);
    SET(comm, 1181408, uint64_t, 0xfedcba9876543210u);
    SET(comm, 1181416, int, 3);
    SET(comm, 1181420, int, 8);
    SET(comm, 1181612, int, 2);
    SET(comm, 1193672, const char *, "tp_group");
    WELL(AT(ncclProfilerPluginInit, int, void *)(comm));
    void *context = GET(comm, 1193792, void *);
    printf("context %p\n", context);
    if (context == NULL) return 1;
    void *shim = dlopen(arguments[2], RTLD_NOW | RTLD_NOLOAD);
    if (shim != NULL) {
        last = (last_handle)dlsym(shim, "last_handle");
        dlclose(shim);
    }

    char info[192] = {0};
    SET(info, 0, int, 4);
    SET(info, 32, size_t, 1 << 20);
    SET(info, 40, int, 9);
    SET(info, 48, int, 0);
    SET(info, 56, void *, comm);
    SET(info, 64, void *, (void *)0x7f00deadbeef);
    SET(info, 120 + 56, uint64_t, 0x51);
    WELL(AT(ncclProfilerStartGroupApiEvent, int, void *, int)(info, 0));
    WELL(AT(ncclProfilerRecordGroupApiEventState, int, int)(23));
    WELL(AT(ncclProfilerStartCollApiEvent, int, void *, int)(info, 1));
    WELL(AT(ncclProfilerStopCollApiEvent, int, void)());
    SET(info, 0, int, 6);
    WELL(AT(ncclProfilerStartP2pApiEvent, int, void *, int)(info, 0));
    WELL(AT(ncclProfilerStopP2pApiEvent, int, void)());
    WELL(AT(ncclProfilerRecordGroupApiEventState, int, int)(24));

    char coll[304] = {0}, send[128] = {0}, plan[352] = {0};
    SET(coll, 8, int, 4);
    SET(coll, 32, size_t, 1 << 20);
    SET(coll, 44, int, 9);
    SET(coll, 97, char, 16);
    SET(coll, 98, char, 1);
    SET(coll, 99, char, 2);
    SET(coll, 224, int, 65535);
    SET(coll, 232, void *, handle_of(256));
    SET(coll, 240, void *, handle_of(512));
    SET(coll, 256, uint8_t, 4);
    SET(coll, 296, uint64_t, 0x51);
    SET(send, 8, int, 6);
    SET(send, 24, size_t, 77);
    SET(send, 32, int, 7);
    SET(send, 36, int, 5);
    SET(send, 64, int, 65535);
    SET(send, 72, void *, handle_of(256));
    SET(send, 80, void *, handle_of(1024));
    /* Two channels: with kernel events, NCCL counts those in the mask, else it takes the number. */
    SET(send, 96, uint8_t, 2);
    SET(send, 112, uint64_t, 3);
    SET(plan, 16, void *, comm);
    SET(plan, 184, void *, send);
    SET(plan, 192, void *, send);
    SET(plan, 280, void *, coll);
    SET(plan, 288, void *, coll);
    SET(plan, 328, void *, handle_of(256));
    WELL(AT(ncclProfilerStartKernelLaunchEvent, int, void *, void *)(plan, (void *)0x7f00deadbeef));
    WELL(AT(ncclProfilerStopKernelLaunchEvent, int, void *)(plan));
    WELL(AT(ncclProfilerStartGroupEvent, int, void *)(plan));
    WELL(AT(ncclProfilerStartTaskEvents, int, void *)(plan));
    /* They are cleared when the tasks stop; what comes later has copies. */
    void *coll_event = GET(coll, 248, void *);
    printf("coll %p\n", coll_event);
    printf("send %p\n", GET(send, 88, void *));
    WELL(AT(ncclProfilerStopTaskEvents, int, void *)(plan));
    WELL(AT(ncclProfilerStopGroupEvent, int, void *)(plan));
    WELL(AT(ncclProfilerStopGroupApiEvent, int, void)());

    char *args = calloc(1, 33016);
    SET(args, 32776, int, 1);
    SET(args, 32800, int, 2);
    SET(args, 32808, size_t, 262144);
    SET(args, 72, int, 1);
    SET(args, 76, int, 8);
    SET(args, 96, int, 4);
    SET(args, 248, int, 65535);
    SET(args, 252, int, 3);
    SET(args, 256, int, getpid());
    SET(args, 264, void *, context);
    SET(args, 272, void *, coll_event);
    WELL(AT(ncclProfilerStartProxyOpEvent, int, int, void *)(0, args));
    printf("op %p\n", GET(args, 280, void *));
    WELL(AT(ncclProfilerRecordProxyOpEventState, int, int, void *, int)(0, args, 19));
    SET(args, 424, size_t, 4096);
    WELL(AT(ncclProfilerStartSendProxyStepEvent, int, int, void *, int)(0, args, 0));
    for (int again = 0; again < 3; again++) WELL(AT(ncclProfilerRecordProxyStepEventState, int, int, void *, int, int)(0, args, 0, 20));
    WELL(AT(ncclProfilerRecordProxyStepEventState, int, int, void *, int, int)(0, args, 0, 9));
    /* What NCCL's InfiniBand transport gives, through NCCL's callback for it. */
    struct { uint8_t kind; struct { int device; uint64_t wr_id; int opcode; int qp_num; size_t length; } qp; } pair = {1, {2, 99, 5, 1234, 4096}};
    void *transfer = NULL;
    WELL(AT(ncclProfilerCallback, int, void **, int, void *, int64_t, void *)(&transfer, 0, args + 296, 0x10001, &pair));
    WELL(AT(ncclProfilerCallback, int, void **, int, void *, int64_t, void *)(&transfer, 1, args + 296, 0x10001, NULL));
    WELL(AT(ncclProfilerStopProxyStepEvent, int, int, void *, int)(0, args, 0));
    WELL(AT(ncclProfilerStartRecvProxyStepEvent, int, int, void *, int)(0, args, 2));
    SET(args, 424, size_t, 8192);
    WELL(AT(ncclProfilerRecordProxyStepEventState, int, int, void *, int, int)(0, args, 2, 10));
    WELL(AT(ncclProfilerRecordProxyStepEventState, int, int, void *, int, int)(0, args, 2, 11));
    WELL(AT(ncclProfilerRecordProxyStepEventState, int, int, void *, int, int)(0, args, 2, 12));
    WELL(AT(ncclProfilerStopProxyStepEvent, int, int, void *, int)(0, args, 2));
    WELL(AT(ncclProfilerStopProxyOpEvent, int, int, void *)(0, args));

    char work[88] = {0};
    SET(work, 0, int, 3);
    SET(work, 16, int, 65535);
    SET(work, 24, void *, coll_event);
    SET(work, 32, void *, context);
    WELL(AT(ncclProfilerStartKernelChEvent, int, void *, uint64_t)(work, 1700000000000000032u));
    WELL(AT(ncclProfilerStopKernelChEvent, int, void *, uint64_t)(work, 1700000000000000992u));

    char copies[96] = {0}, batch[64] = {0};
    size_t sizes[2] = {3000, 96};
    void *sync = NULL, *copied = NULL;
    SET(copies, 0, int, 2);
    SET(copies, 4, int, 0);
    SET(copies, 8, int, 0);
    SET(copies, 16, size_t, 3096);
    SET(copies, 24, size_t, 1);
    SET(copies, 64, void *, handle_of(512));
    SET(copies, 80, uint64_t, 0x52);
    SET(batch, 16, size_t *, sizes);
    SET(batch, 24, size_t, 2);
    SET(comm, 1195784, uint32_t, 6);
    WELL(AT(ncclProfilerStartCeCollEvent, int, void *, void *, void *)(comm, copies, (void *)0x7f00deadbeef));
    printf("copies %p\n", GET(copies, 72, void *));
    WELL(AT(ncclProfilerStartCeSyncEvent, int, void *, void *, void *, void **)(comm, copies, NULL, &sync));
    WELL(AT(ncclProfilerStopCeSyncEvent, int, void *, void *, void *)(comm, sync, NULL));
    WELL(AT(ncclProfilerStartCeBatchEvent, int, void *, void *, void *, void *, void **)(comm, copies, batch, NULL, &copied));
    WELL(AT(ncclProfilerStopCeBatchEvent, int, void *, void *, void *)(comm, copied, NULL));
    WELL(AT(ncclProfilerStopCeCollEvent, int, void *, void *, void *)(comm, copies, NULL));

    WELL(AT(ncclProfilerPluginFinalize, int, void *)(comm));
    printf("done\n");
    return 0;
}
