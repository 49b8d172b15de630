/* The functions of NCCL that tests call, as far as they need them: own declarations, weak, so that a program that uses them starts without. */
#ifndef FAKE_NCCL_H
#define FAKE_NCCL_H
#include <stddef.h>

typedef void *P;
typedef struct { char bytes[128]; } Id;

/* How NCCL's configuration of a communicator begins. */
#define CONFIG_MAGIC 0xcafebeefu
typedef struct { size_t size; unsigned magic, version; int blocking; } Config;

#define API(name, ...) int name(__VA_ARGS__) __attribute__((weak)); int p##name(__VA_ARGS__) __attribute__((weak))
API(ncclGetVersion, int *version);
API(ncclGetUniqueId, Id *id);
API(ncclCommInitRank, P *comm, int size, Id id, int rank);
API(ncclCommInitRankConfig, P *comm, int size, Id id, int rank, P config);
API(ncclCommInitRankScalable, P *comm, int size, int rank, int ids, Id *id, P config);
API(ncclCommInitAll, P *comms, int count, const int *devices);
API(ncclCommFinalize, P comm);
API(ncclCommDestroy, P comm);
API(ncclCommAbort, P comm);
API(ncclCommRevoke, P comm, int flags);
API(ncclCommSuspend, P comm, int flags);
API(ncclCommResume, P comm);
API(ncclCommSplit, P comm, int color, int key, P *made, P config);
API(ncclCommShrink, P comm, int *without, int count, P *made, P config, int flags);
API(ncclCommGrow, P comm, int size, const Id *id, int rank, P *made, P config);
API(ncclCommGetUniqueId, P comm, Id *id);
API(ncclCommGetAsyncError, P comm, int *error);
API(ncclCommCount, P comm, int *count);
API(ncclCommUserRank, P comm, int *rank);
API(ncclCommRegister, P comm, P memory, size_t size, P *handle);
API(ncclCommDeregister, P comm, P handle);
API(ncclCommWindowRegister, P comm, P memory, size_t size, P *window, int flags);
API(ncclCommWindowDeregister, P comm, P window);
API(ncclMemAlloc, P *memory, size_t size);
API(ncclMemFree, P memory);
API(ncclGroupStart, void);
API(ncclGroupEnd, void);
API(ncclGroupSimulateEnd, P info);
API(ncclRedOpCreatePreMulSum, int *op, P scalar, int type, int residence, P comm);
API(ncclRedOpDestroy, int op, P comm);
API(ncclAllReduce, P from, P to, size_t count, int type, int op, P comm, P stream);
API(ncclReduceScatter, P from, P to, size_t count, int type, int op, P comm, P stream);
API(ncclReduce, P from, P to, size_t count, int type, int op, int root, P comm, P stream);
API(ncclAllGather, P from, P to, size_t count, int type, P comm, P stream);
API(ncclBroadcast, P from, P to, size_t count, int type, int root, P comm, P stream);
API(ncclBcast, P buffer, size_t count, int type, int root, P comm, P stream);
API(ncclAlltoAll, P from, P to, size_t count, int type, P comm, P stream);
API(ncclGather, P from, P to, size_t count, int type, int root, P comm, P stream);
API(ncclScatter, P from, P to, size_t count, int type, int root, P comm, P stream);
API(ncclAllReduceConfig, P from, P to, size_t count, int type, int op, P comm, P stream, P config);
API(ncclReduceScatterConfig, P from, P to, size_t count, int type, int op, P comm, P stream, P config);
API(ncclReduceConfig, P from, P to, size_t count, int type, int op, int root, P comm, P stream, P config);
API(ncclAllGatherConfig, P from, P to, size_t count, int type, P comm, P stream, P config);
API(ncclBroadcastConfig, P from, P to, size_t count, int type, int root, P comm, P stream, P config);
API(ncclAlltoAllConfig, P from, P to, size_t count, int type, P comm, P stream, P config);
API(ncclGatherConfig, P from, P to, size_t count, int type, int root, P comm, P stream, P config);
API(ncclScatterConfig, P from, P to, size_t count, int type, int root, P comm, P stream, P config);
API(ncclSend, P from, size_t count, int type, int peer, P comm, P stream);
API(ncclRecv, P to, size_t count, int type, int peer, P comm, P stream);
API(ncclPutSignal, P from, size_t count, int type, int peer, P window, size_t offset, int signal, int context, unsigned flags, P comm,
    P stream);
API(ncclSignal, int peer, int signal, int context, unsigned flags, P comm, P stream);
API(ncclWaitSignal, int count, P signals, P comm, P stream);
#endif
