/* A libnccl.so.2 for tests: it moves no data, and knows only what its callers hand over.
 *
 * As in NCCL the strong symbols are pncclX, and ncclX are weak aliases of them. FAKE_VERSION (default 23203) leaves out what NCCL of that
 * version does not have. Environment:
 *   FAKE_NCCL_LOG=FILE             one line per call: name, then all arguments in hexadecimal, each 8 bytes of an id on their own
 *   FAKE_NCCL_RESULT=NAME:NUMBER   what this function returns
 *   FAKE_NCCL_DELAY=NAME:RANK:MS   how long it takes; RANK is compared with the variable RANK, -1 is all
 *   FAKE_NCCL_HANG=NAME:RANK       it does not come back
 *   FAKE_NCCL_NONBLOCKING=1        communicators are made with result 7, and split ones are complete when their parent is asked for errors
 */
#define _GNU_SOURCE
#include "fake_nccl.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef FAKE_VERSION
#define FAKE_VERSION 23203
#endif

typedef unsigned long long U;
struct comm { int rank, size; P *place; struct comm *made; };

static int log_fd = -1, is_quiet = 1, is_nonblocking;
static char result_of[64], delay_of[64], hang_of[64];
static int result, delay_rank = -1, delay_ms, hang_rank = -1, my_rank = -1;
static __thread int depth;
static __thread struct comm *unfinished[64];
static __thread int unfinished_count;

__attribute__((constructor)) static void begin(void) {
    char *text;
    if ((text = getenv("FAKE_NCCL_LOG"))) log_fd = open(text, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if ((text = getenv("FAKE_NCCL_RESULT"))) sscanf(text, "%63[^:]:%d", result_of, &result);
    if ((text = getenv("FAKE_NCCL_DELAY"))) sscanf(text, "%63[^:]:%d:%d", delay_of, &delay_rank, &delay_ms);
    if ((text = getenv("FAKE_NCCL_HANG"))) sscanf(text, "%63[^:]:%d", hang_of, &hang_rank);
    if ((text = getenv("RANK"))) my_rank = atoi(text);
    is_nonblocking = getenv("FAKE_NCCL_NONBLOCKING") != NULL;
    is_quiet = log_fd < 0 && !*result_of && !*delay_of && !*hang_of;
}

static int is_mine(int rank) { return rank == -1 || rank == my_rank; }

__attribute__((noinline)) static int note(const char *name, const U *values, size_t count) {
    if (is_quiet) return 0;
    char line[1024];
    int length = snprintf(line, sizeof line, "%s", name);
    for (size_t i = 0; i < count; i++) length += snprintf(line + length, sizeof line - length, " %llx", values[i]);
    line[length++] = '\n';
    if (log_fd >= 0 && write(log_fd, line, length) != length) abort();
    if (!strcmp(name, delay_of) && is_mine(delay_rank)) usleep(1000 * delay_ms);
    while (!strcmp(name, hang_of) && is_mine(hang_rank)) pause();
    return strcmp(name, result_of) ? 0 : result;
}

#define NOTE(name, ...) note(name, (U[]){__VA_ARGS__}, sizeof((U[]){__VA_ARGS__}) / sizeof(U))
#define WORDS(id) (id)[0], (id)[1], (id)[2], (id)[3], (id)[4], (id)[5], (id)[6], (id)[7], (id)[8], (id)[9], (id)[10], (id)[11], (id)[12], (id)[13], (id)[14], (id)[15]
#define ALIAS(name, ...) int name(__VA_ARGS__) __attribute__((weak, alias("p" #name)));
#define IT(name, parameters, ...) int p##name parameters { return NOTE(#name, __VA_ARGS__); } int name parameters __attribute__((weak, alias("p" #name)));
#define V (U)

static P comm_of(int rank, int size) {
    struct comm *comm = malloc(sizeof *comm); /* gives an address again; calloc need not */
    *comm = (struct comm){0};
    comm->rank = rank;
    comm->size = size;
    return comm;
}

/* A communicator that is made from another one is there when its group has ended, or later. */
static int derive(int noted, struct comm *parent, P *place, struct comm *made) {
    *place = NULL;
    if (noted) return noted;
    if (is_nonblocking) {
        parent->place = place;
        parent->made = made;
        return 7;
    }
    if (depth == 0 || !made) {
        *place = made;
    } else {
        made->place = place;
        unfinished[unfinished_count++ % 64] = made;
    }
    return 0;
}

int pncclGetVersion(int *version) { *version = FAKE_VERSION; return 0; }
ALIAS(ncclGetVersion, int *version)
int pncclCommCount(P comm, int *count) { *count = ((struct comm *)comm)->size; return 0; }
ALIAS(ncclCommCount, P comm, int *count)
int pncclCommUserRank(P comm, int *rank) { *rank = ((struct comm *)comm)->rank; return 0; }
ALIAS(ncclCommUserRank, P comm, int *rank)
int pncclCommGetAsyncError(P comm, int *error) {
    struct comm *parent = comm;
    if (parent->place) *parent->place = parent->made;
    parent->place = NULL;
    *error = 0;
    return 0;
}
ALIAS(ncclCommGetAsyncError, P comm, int *error)

/* CUDA's: one stream is always being captured. */
int cudaStreamIsCapturing(P stream, int *status) { *status = stream == (P)81; return 0; }

int pncclGetUniqueId(Id *id) { memset(id, 7, sizeof *id); return NOTE("ncclGetUniqueId", V id); }
ALIAS(ncclGetUniqueId, Id *id)
int pncclCommInitRank(P *comm, int size, Id id, int rank) {
    U words[16];
    memcpy(words, &id, sizeof id);
    int noted = NOTE("ncclCommInitRank", V comm, size, WORDS(words), rank);
    if (!noted) *comm = comm_of(rank, size);
    return noted ? noted : is_nonblocking ? 7 : 0;
}
ALIAS(ncclCommInitRank, P *comm, int size, Id id, int rank)
int pncclCommInitRankConfig(P *comm, int size, Id id, int rank, P config) {
    U words[16];
    memcpy(words, &id, sizeof id);
    int noted = NOTE("ncclCommInitRankConfig", V comm, size, WORDS(words), rank, V config);
    if (!noted) *comm = comm_of(rank, size);
    return noted ? noted : is_nonblocking ? 7 : 0;
}
ALIAS(ncclCommInitRankConfig, P *comm, int size, Id id, int rank, P config)
int pncclCommInitAll(P *comms, int count, const int *devices) {
    int noted = NOTE("ncclCommInitAll", V comms, count, V devices);
    for (int i = 0; !noted && i < count; i++) comms[i] = comm_of(i, count);
    return noted;
}
ALIAS(ncclCommInitAll, P *comms, int count, const int *devices)
int pncclCommSplit(P comm, int color, int key, P *made, P config) {
    int noted = NOTE("ncclCommSplit", V comm, V(unsigned)color, key, V made, V config);
    return derive(noted, comm, made, color == -1 ? NULL : comm_of(key, ((struct comm *)comm)->size / 2));
}
ALIAS(ncclCommSplit, P comm, int color, int key, P *made, P config)
IT(ncclCommFinalize, (P comm), V comm)
int pncclCommDestroy(P comm) { int noted = NOTE("ncclCommDestroy", V comm); free(comm); return noted; }
ALIAS(ncclCommDestroy, P comm)
int pncclCommAbort(P comm) { int noted = NOTE("ncclCommAbort", V comm); free(comm); return noted; }
ALIAS(ncclCommAbort, P comm)
int pncclGroupStart(void) { depth++; return NOTE("ncclGroupStart", 0); }
ALIAS(ncclGroupStart, void)
int pncclGroupEnd(void) {
    for (depth--; depth == 0 && unfinished_count; unfinished_count--) *unfinished[unfinished_count - 1]->place = unfinished[unfinished_count - 1];
    return NOTE("ncclGroupEnd", 0);
}
ALIAS(ncclGroupEnd, void)
int pncclRedOpCreatePreMulSum(int *op, P scalar, int type, int residence, P comm) {
    *op = 1000;
    return NOTE("ncclRedOpCreatePreMulSum", V op, V scalar, type, residence, V comm);
}
ALIAS(ncclRedOpCreatePreMulSum, int *op, P scalar, int type, int residence, P comm)
IT(ncclRedOpDestroy, (int op, P comm), op, V comm)
IT(ncclAllReduce, (P from, P to, size_t count, int type, int op, P comm, P stream), V from, V to, count, type, op, V comm, V stream)
IT(ncclReduceScatter, (P from, P to, size_t count, int type, int op, P comm, P stream), V from, V to, count, type, op, V comm, V stream)
IT(ncclReduce, (P from, P to, size_t count, int type, int op, int root, P comm, P stream), V from, V to, count, type, op, root, V comm, V stream)
IT(ncclAllGather, (P from, P to, size_t count, int type, P comm, P stream), V from, V to, count, type, V comm, V stream)
IT(ncclBroadcast, (P from, P to, size_t count, int type, int root, P comm, P stream), V from, V to, count, type, root, V comm, V stream)
/* As NCCL's: by its own public function, which the linker may lead elsewhere. */
int pncclBcast(P buffer, size_t count, int type, int root, P comm, P stream) {
    int noted = NOTE("ncclBcast", V buffer, count, type, root, V comm, V stream);
    return noted ? noted : ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}
ALIAS(ncclBcast, P buffer, size_t count, int type, int root, P comm, P stream)
IT(ncclSend, (P from, size_t count, int type, int peer, P comm, P stream), V from, count, type, peer, V comm, V stream)
IT(ncclRecv, (P to, size_t count, int type, int peer, P comm, P stream), V to, count, type, peer, V comm, V stream)

#if FAKE_VERSION >= 22200
int pncclGroupSimulateEnd(P info) { depth--; return NOTE("ncclGroupSimulateEnd", V info); }
ALIAS(ncclGroupSimulateEnd, P info)
#endif
#if FAKE_VERSION >= 22300
int pncclCommInitRankScalable(P *comm, int size, int rank, int ids, Id *id, P config) {
    U words[16];
    memcpy(words, id, sizeof *id);
    int noted = NOTE("ncclCommInitRankScalable", V comm, size, rank, ids, WORDS(words), V config);
    if (!noted) *comm = comm_of(rank, size);
    return noted;
}
ALIAS(ncclCommInitRankScalable, P *comm, int size, int rank, int ids, Id *id, P config)
#endif
#if FAKE_VERSION >= 22700
int pncclCommShrink(P comm, int *without, int count, P *made, P config, int flags) {
    struct comm *parent = comm;
    int noted = NOTE("ncclCommShrink", V comm, V without, count, V made, V config, flags);
    return derive(noted, parent, made, comm_of(parent->rank, parent->size - count));
}
ALIAS(ncclCommShrink, P comm, int *without, int count, P *made, P config, int flags)
#endif
#if FAKE_VERSION >= 22800
IT(ncclAlltoAll, (P from, P to, size_t count, int type, P comm, P stream), V from, V to, count, type, V comm, V stream)
IT(ncclGather, (P from, P to, size_t count, int type, int root, P comm, P stream), V from, V to, count, type, root, V comm, V stream)
IT(ncclScatter, (P from, P to, size_t count, int type, int root, P comm, P stream), V from, V to, count, type, root, V comm, V stream)
#endif
#if FAKE_VERSION >= 22900
IT(ncclPutSignal, (P from, size_t count, int type, int peer, P window, size_t offset, int signal, int context, unsigned flags, P comm, P stream),
   V from, count, type, peer, V window, offset, signal, context, flags, V comm, V stream)
IT(ncclSignal, (int peer, int signal, int context, unsigned flags, P comm, P stream), peer, signal, context, flags, V comm, V stream)
IT(ncclWaitSignal, (int count, P signals, P comm, P stream), count, V signals, V comm, V stream)
int pncclCommGrow(P comm, int size, const Id *id, int rank, P *made, P config) {
    int noted = NOTE("ncclCommGrow", V comm, size, V id, V(unsigned)rank, V made, V config);
    if (!noted) *made = comm_of(comm ? ((struct comm *)comm)->rank : rank, size);
    return noted;
}
ALIAS(ncclCommGrow, P comm, int size, const Id *id, int rank, P *made, P config)
int pncclCommGetUniqueId(P comm, Id *id) { memset(id, 9, sizeof *id); return NOTE("ncclCommGetUniqueId", V comm, V id); }
ALIAS(ncclCommGetUniqueId, P comm, Id *id)
IT(ncclCommRevoke, (P comm, int flags), V comm, flags)
IT(ncclCommSuspend, (P comm, int flags), V comm, flags)
IT(ncclCommResume, (P comm), V comm)
#endif
#if FAKE_VERSION >= 23100
IT(ncclAllReduceConfig, (P from, P to, size_t count, int type, int op, P comm, P stream, P config), V from, V to, count, type, op, V comm, V stream, V config)
IT(ncclReduceScatterConfig, (P from, P to, size_t count, int type, int op, P comm, P stream, P config), V from, V to, count, type, op, V comm, V stream, V config)
IT(ncclReduceConfig, (P from, P to, size_t count, int type, int op, int root, P comm, P stream, P config), V from, V to, count, type, op, root, V comm, V stream, V config)
IT(ncclAllGatherConfig, (P from, P to, size_t count, int type, P comm, P stream, P config), V from, V to, count, type, V comm, V stream, V config)
IT(ncclBroadcastConfig, (P from, P to, size_t count, int type, int root, P comm, P stream, P config), V from, V to, count, type, root, V comm, V stream, V config)
IT(ncclAlltoAllConfig, (P from, P to, size_t count, int type, P comm, P stream, P config), V from, V to, count, type, V comm, V stream, V config)
IT(ncclGatherConfig, (P from, P to, size_t count, int type, int root, P comm, P stream, P config), V from, V to, count, type, root, V comm, V stream, V config)
IT(ncclScatterConfig, (P from, P to, size_t count, int type, int root, P comm, P stream, P config), V from, V to, count, type, root, V comm, V stream, V config)
#endif
