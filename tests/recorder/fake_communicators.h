/* The communicators of the made NCCL: their memory, their states, and when they are there.
 *
 * As in NCCL, words at the begin and the end of a communicator say that it lives. NCCL reads what it is given; this one stops the process if
 * that is no communicator that lives, so that nobody gets through with a handle that is stale. Memory that is given back is the first to be
 * given out again.
 *
 * A group belongs to a thread. What it makes and destroys happens at its end, on the thread or, if its communicators do not block, later, on
 * a thread of NCCL's own, which then writes to the caller's variable, wherever that is by now. Until then the communicator that was split is
 * in progress (7), and every other function refuses it (4).
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { IN_PROGRESS = 7, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, COMMUNICATORS = 8192, JOBS = 1024 };
#define MAGIC 0x0280028002800280ull

struct comm;
/* Something that a group does at its end: a communicator is made, or destroyed. */
struct job { struct comm *comm, *parent; P *place; int destroys; };
struct comm {
    unsigned long long begin;
    int rank, size, blocks, is_revoked;
    int running;          /* jobs of NCCL's own threads on it */
    struct job asked_for; /* is done when somebody asks for errors */
    struct comm *next_free;
    char rest[4000];
    unsigned long long end;
};

static struct comm arena[COMMUNICATORS] __attribute__((aligned(4096)));
static struct comm *first_free;
static int used;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* How communicators that do not block are made: not at all, when somebody asks, or by a thread within so many ms. */
static enum { BLOCKING, ASKED, THREADS } mode;
static int latest_ms, split_result = IN_PROGRESS;

static __thread int depth, group_error, job_count;
static __thread struct job jobs[JOBS];

static void take_lock(void) { pthread_mutex_lock(&lock); }
static void give_lock(void) { pthread_mutex_unlock(&lock); }

static void begin_communicators(void) {
    pthread_atfork(take_lock, give_lock, give_lock);
    char *text = getenv("FAKE_NCCL_NONBLOCKING");
    if (text) mode = sscanf(text, "%d:%d", &latest_ms, &split_result) == 2 ? THREADS : ASKED;
}

static struct comm *new_comm(int rank, int size, int blocks) {
    take_lock();
    struct comm *comm = first_free;
    if (comm) first_free = comm->next_free;
    else if (used < COMMUNICATORS) comm = &arena[used++];
    give_lock();
    if (!comm) abort();
    *comm = (struct comm){.begin = MAGIC, .rank = rank, .size = size, .blocks = blocks, .end = MAGIC};
    return comm;
}

static void free_comm(struct comm *comm) {
    take_lock();
    comm->begin = comm->end = 0xdead;
    comm->next_free = first_free;
    first_free = comm;
    give_lock();
}

/* The communicator of a handle; null for null. */
static struct comm *living(const char *function, P handle) {
    struct comm *comm = handle;
    size_t at = (char *)handle - (char *)arena;
    if (!handle || (at < sizeof arena && at % sizeof *arena == 0 && comm->begin == MAGIC && comm->end == MAGIC)) return comm;
    fprintf(stderr, "%s: %p is no communicator\n", function, handle);
    abort();
}

/* An error within a group is the group's, too. */
static int failed(int result) {
    if (depth > 0 && result && result != IN_PROGRESS && !group_error) group_error = result;
    return result;
}

/* Whether a function may use it: 0, or the error. */
static int refused(const char *function, P handle) {
    struct comm *comm = living(function, handle);
    if (!comm || __atomic_load_n(&comm->running, __ATOMIC_ACQUIRE)) return failed(INVALID_ARGUMENT);
    return 0;
}

static void finish(const struct job *job) {
    if (job->place) __atomic_store_n(job->place, (P)job->comm, __ATOMIC_RELEASE);
}

struct group { int count; struct job jobs[]; };

/* What is in progress is the communicator that is split, or the one that is made from an id. */
static struct comm *owner(const struct job *job) { return job->parent ? job->parent : job->comm; }

static void *run_group(void *argument) {
    static unsigned noise = 1;
    struct group *group = argument;
    unsigned random = __atomic_add_fetch(&noise, 0x9e3779b9u, __ATOMIC_RELAXED);
    usleep((random ^ random >> 15) * 2654435761u % (1000u * latest_ms + 1));
    for (int i = 0; i < group->count; i++) finish(&group->jobs[i]);
    for (int i = 0; i < group->count; i++) __atomic_sub_fetch(&owner(&group->jobs[i])->running, 1, __ATOMIC_RELEASE);
    free(group);
    return NULL;
}

static int start_thread(int count) {
    struct group *group = malloc(sizeof *group + count * sizeof(struct job));
    pthread_t thread;
    group->count = count;
    memcpy(group->jobs, jobs, count * sizeof(struct job));
    for (int i = 0; i < count; i++) __atomic_add_fetch(&owner(&jobs[i])->running, 1, __ATOMIC_RELEASE);
    if (pthread_create(&thread, NULL, run_group, group)) abort();
    pthread_detach(thread);
    return IN_PROGRESS;
}

/* What the thread's group has collected is done. */
static int end_group(void) {
    int count = 0, all = job_count, error = group_error, waits = 1;
    job_count = group_error = 0;
    for (int i = 0; i < all; i++) {
        if (jobs[i].destroys) free_comm(jobs[i].comm);
        else jobs[count++] = jobs[i];
    }
    for (int i = 0; i < count; i++) waits &= owner(&jobs[i])->blocks;
    if (error) {
        for (int i = 0; i < count; i++) {
            /* What the caller has an address of is the caller's to abort. */
            if (jobs[i].parent && jobs[i].comm) free_comm(jobs[i].comm);
        }
        return error;
    }
    if (!waits && mode == THREADS) return start_thread(count);
    for (int i = 0; i < count; i++) {
        if (mode == ASKED && jobs[i].parent) jobs[i].parent->asked_for = jobs[i];
        else finish(&jobs[i]);
    }
    return mode == ASKED && count ? IN_PROGRESS : 0;
}

/* A job of the thread's group, or of one that it has for itself. */
static int add_job(struct job job) {
    if (job_count == JOBS) abort();
    jobs[job_count++] = job;
    return depth ? 0 : end_group();
}

/* Whether a configuration says that calls wait; one that is not given says what its parent's does. */
static int blocks(const Config *config, const struct comm *parent) {
    if (mode != THREADS) return mode == BLOCKING;
    if (!config) return parent ? parent->blocks : 1;
    if (config->magic != CONFIG_MAGIC) abort();
    return config->blocking;
}

/* From an id: the address is there at once. */
static int make(int noted, P *place, int rank, int size, P config) {
    if (noted) return failed(noted);
    struct comm *comm = new_comm(rank, size, blocks(config, NULL));
    *place = comm;
    return add_job((struct job){.comm = comm});
}

/* From another communicator. The address is there at once if it grows; otherwise at the end. */
static int derive(int noted, P from, P *place, int rank, int size, P config, int is_made, int grows) {
    struct comm *parent = from, *comm = NULL;
    *place = NULL;
    if (noted) return failed(noted);
    if (is_made) comm = new_comm(rank, size, blocks(config, parent));
    if (grows) *place = comm;
    int result = add_job((struct job){.comm = comm, .parent = grows ? NULL : parent, .place = place});
    return result == IN_PROGRESS ? split_result : result;
}

static int destroy(const char *function, int noted, P handle, int aborts) {
    struct comm *comm = living(function, handle);
    if (!comm) return noted;
    while (aborts && __atomic_load_n(&comm->running, __ATOMIC_ACQUIRE)) usleep(50);
    if (__atomic_load_n(&comm->running, __ATOMIC_ACQUIRE)) return failed(INVALID_ARGUMENT);
    add_job((struct job){.comm = comm, .destroys = 1});
    return failed(noted);
}
