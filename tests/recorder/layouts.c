/* The profiler interface of NCCL 2.27 to 2.32 as C structures, from what is known of its layout: their offsets, as this computer's C
   compiler makes them, one line each. The numbers that NVIDIA's own debugging information gives are asserted beside them. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define COLL                                                                                                          \
    uint64_t seq_number;                                                                                              \
    const char *func;                                                                                                 \
    const void *send_buff;                                                                                            \
    void *recv_buff;                                                                                                  \
    size_t count;                                                                                                     \
    int root;                                                                                                         \
    const char *datatype;
#define COLL_KERNEL                                                                                                   \
    uint8_t n_channels;                                                                                               \
    uint8_t n_warps;                                                                                                  \
    const char *algo;                                                                                                 \
    const char *proto;
#define P2P                                                                                                           \
    const char *func;                                                                                                 \
    void *buff;                                                                                                       \
    const char *datatype;                                                                                             \
    size_t count;                                                                                                     \
    int peer;                                                                                                         \
    uint8_t n_channels;
#define COLL_API                                                                                                      \
    const char *func;                                                                                                 \
    size_t count;                                                                                                     \
    const char *datatype;                                                                                             \
    int root;                                                                                                         \
    void *stream;                                                                                                     \
    bool graph_captured;
#define P2P_API                                                                                                       \
    const char *func;                                                                                                 \
    size_t count;                                                                                                     \
    const char *datatype;                                                                                             \
    void *stream;                                                                                                     \
    bool graph_captured;
#define CE_COLL                                                                                                       \
    const char *sync_strategy;                                                                                        \
    bool intra_batch_sync;                                                                                            \
    uint32_t batch_size;                                                                                              \
    uint32_t num_batches;                                                                                             \
    uint32_t ce_seq_num;                                                                                              \
    void *stream;
#define SINCE_V4                                                                                                      \
    struct { int pid; uint8_t channel_id; int peer; int n_steps; int chunk_size; int is_send; } proxy_op;             \
    struct { int step; } proxy_step;                                                                                  \
    struct { uint8_t channel_id; uint64_t gpu_time; } kernel_ch;                                                      \
    struct { int64_t id; void *data; } net_plugin;
#define SINCE_V5                                                                                                      \
    struct { bool graph_captured; int group_depth; } group_api;                                                       \
    struct { void *stream; } kernel_launch;
#define SINCE_V6                                                                                                      \
    struct { bool is_complete; int n_ranks; } ce_sync;                                                                \
    struct { int num_ops; size_t total_bytes; bool use_intra_sync; } ce_batch;

struct v4 {
    uint8_t event;
    void *parent;
    int rank;
    union {
        struct { COLL COLL_KERNEL } coll;
        struct { P2P } p2p;
        SINCE_V4
    } of;
};

struct v5 {
    uint64_t event;
    void *parent;
    int rank;
    union {
        struct { COLL COLL_KERNEL void *parent_group; } coll;
        struct { P2P void *parent_group; } p2p;
        struct { COLL_API } coll_api;
        struct { P2P_API } p2p_api;
        SINCE_V4 SINCE_V5
    } of;
};

struct v6 {
    uint64_t event;
    void *parent;
    int rank;
    union {
        struct { COLL COLL_KERNEL void *parent_group; } coll;
        struct { P2P void *parent_group; } p2p;
        struct { COLL_API } coll_api;
        struct { P2P_API } p2p_api;
        struct { COLL CE_COLL } ce_coll;
        SINCE_V4 SINCE_V5 SINCE_V6
    } of;
};

struct v7 {
    uint64_t event;
    void *parent;
    int rank;
    union {
        struct { COLL COLL_KERNEL void *parent_group; const char *kernel_variant; bool is_sym_coll; uint64_t user_tag; } coll;
        struct { P2P void *parent_group; uint64_t user_tag; } p2p;
        struct { COLL_API uint64_t user_tag; } coll_api;
        struct { P2P_API uint64_t user_tag; } p2p_api;
        struct { COLL CE_COLL uint64_t user_tag; } ce_coll;
        struct { uint8_t channel_id; uint8_t phase_id; const char *phase_name; uint64_t gpu_time; } kernel_phase;
        SINCE_V4 SINCE_V5 SINCE_V6
    } of;
};

union state_args {
    struct { size_t trans_size; } proxy_step;
    struct { int appended; } proxy_ctrl;
    struct { void *data; } net_plugin;
    struct { uint64_t gpu_time; } kernel_ch;
};

struct table { const char *name; int (*init)(void); int (*start)(void); int (*stop)(void); int (*record)(void); int (*finalize)(void); };

struct net_ib { uint8_t kind; union { struct { int device; uint64_t wr_id; int opcode; int qp_num; size_t length; } qp; } of; };
struct net_socket { uint8_t kind; union { struct { int fd; int op; size_t length; } sock; } of; };

_Static_assert(sizeof(struct v4) == 104 && sizeof(struct v5) == 112 && sizeof(struct v6) == 112 && sizeof(struct v7) == 136, "sizes");
_Static_assert(offsetof(struct v4, of) == 24 && offsetof(struct v7, of) == 24, "unions");
_Static_assert(offsetof(struct v7, of.coll.user_tag) == 128 && offsetof(struct v6, of.ce_coll.stream) == 104, "last fields");
_Static_assert(sizeof(union state_args) == 8 && sizeof(struct table) == 48, "arguments and table");

#define SAY(version, member) printf(#version "." #member " %zu\n", offsetof(struct version, of.member));
#define SIZE(type) printf(#type " %zu\n", sizeof(struct type));

#define SAY_V4(v)                                                                                                     \
    SAY(v, coll.seq_number) SAY(v, coll.func) SAY(v, coll.send_buff) SAY(v, coll.recv_buff) SAY(v, coll.count)        \
    SAY(v, coll.root) SAY(v, coll.datatype) SAY(v, coll.n_channels) SAY(v, coll.n_warps) SAY(v, coll.algo)            \
    SAY(v, coll.proto) SAY(v, p2p.func) SAY(v, p2p.buff) SAY(v, p2p.datatype) SAY(v, p2p.count) SAY(v, p2p.peer)      \
    SAY(v, p2p.n_channels) SAY(v, proxy_op.pid) SAY(v, proxy_op.channel_id) SAY(v, proxy_op.peer)                     \
    SAY(v, proxy_op.n_steps) SAY(v, proxy_op.chunk_size) SAY(v, proxy_op.is_send) SAY(v, proxy_step.step)             \
    SAY(v, kernel_ch.channel_id) SAY(v, kernel_ch.gpu_time) SAY(v, net_plugin.id) SAY(v, net_plugin.data)
#define SAY_V5(v)                                                                                                     \
    SAY_V4(v) SAY(v, coll.parent_group) SAY(v, p2p.parent_group) SAY(v, group_api.graph_captured)                     \
    SAY(v, group_api.group_depth) SAY(v, coll_api.func) SAY(v, coll_api.count) SAY(v, coll_api.datatype)              \
    SAY(v, coll_api.root) SAY(v, coll_api.stream) SAY(v, coll_api.graph_captured) SAY(v, p2p_api.func)                \
    SAY(v, p2p_api.count) SAY(v, p2p_api.datatype) SAY(v, p2p_api.stream) SAY(v, p2p_api.graph_captured)              \
    SAY(v, kernel_launch.stream)
#define SAY_V6(v)                                                                                                     \
    SAY_V5(v) SAY(v, ce_coll.seq_number) SAY(v, ce_coll.func) SAY(v, ce_coll.send_buff) SAY(v, ce_coll.recv_buff)     \
    SAY(v, ce_coll.count) SAY(v, ce_coll.root) SAY(v, ce_coll.datatype) SAY(v, ce_coll.sync_strategy)                 \
    SAY(v, ce_coll.intra_batch_sync) SAY(v, ce_coll.batch_size) SAY(v, ce_coll.num_batches)                           \
    SAY(v, ce_coll.ce_seq_num) SAY(v, ce_coll.stream) SAY(v, ce_sync.is_complete) SAY(v, ce_sync.n_ranks)             \
    SAY(v, ce_batch.num_ops) SAY(v, ce_batch.total_bytes) SAY(v, ce_batch.use_intra_sync)
#define SAY_V7(v)                                                                                                     \
    SAY_V6(v) SAY(v, coll.kernel_variant) SAY(v, coll.is_sym_coll) SAY(v, coll.user_tag) SAY(v, p2p.user_tag)         \
    SAY(v, coll_api.user_tag) SAY(v, p2p_api.user_tag) SAY(v, ce_coll.user_tag) SAY(v, kernel_phase.channel_id)       \
    SAY(v, kernel_phase.phase_id) SAY(v, kernel_phase.phase_name) SAY(v, kernel_phase.gpu_time)

int main(void) {
    SAY_V4(v4) SAY_V5(v5) SAY_V6(v6) SAY_V7(v7)
    SIZE(v4) SIZE(v5) SIZE(v6) SIZE(v7) SIZE(table) SIZE(net_ib) SIZE(net_socket)
    SAY(net_ib, qp.device) SAY(net_ib, qp.wr_id) SAY(net_ib, qp.opcode) SAY(net_ib, qp.qp_num) SAY(net_ib, qp.length)
    SAY(net_socket, sock.fd) SAY(net_socket, sock.op) SAY(net_socket, sock.length)
    return 0;
}
