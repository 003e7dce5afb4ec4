/* SPDX-License-Identifier: Apache-2.0 */
/* watch.h — what the watchdog's files share (private to src/comm).
 *
 *   watch.c         records, written by the rank that works
 *   watch_view.c    copies of them, for who reads
 *   watch_graph.c   who waits for whom: pure
 *   watch_text.c    what is said of it
 *   watch_thread.c  looks, decides, ends the run
 *   watch_files.c   what hosts tell each other
 *   watch_end.c     reports, and ends the run */
#ifndef PT_COMM_WATCH_H
#define PT_COMM_WATCH_H

#include "penta/comm/watch.h"
#include "src/comm/private.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { WATCH_RECORDS = 64, WATCH_COMMS = 24, WATCH_HOST = 64, WATCH_DOING = 24 };

/* Place in the run, without pointers. */
typedef struct watch_where {
    int64_t step;
    int32_t phase, layer, chunk, micro_batch;
    char site[16];
} watch_where_t;

/* One operation. In shared memory it is a row of words, each written and read as a
 * whole. */
typedef struct watch_record {
    uint64_t number;    /* in the order of begin on this rank, from 1; 0: none */
    uint64_t comm;      /* identity: the same on all members */
    int64_t sequence;   /* of the collective on comm, from 1; 0: a message */
    int64_t bytes;      /* of one rank's block; -1: blocks differ */
    int32_t kind, peer; /* peer: root, or the other end of a message; else 0 */
    int64_t tag;
    watch_where_t where;
    int64_t begun_nsec, wire_nsec, done_nsec; /* 0: not yet */
} watch_record_t;

typedef struct watch_comm {
    uint64_t id;         /* 0: free */
    int64_t begun, done; /* collectives */
    int32_t rank, size;
    char name[PT_COMM_NAME];
} watch_comm_t;

enum {
    WATCH_WHERE_WORDS = sizeof(watch_where_t) / 8,
    WATCH_RECORD_WORDS = sizeof(watch_record_t) / 8,
    WATCH_COMM_WORDS = sizeof(watch_comm_t) / 8,
    WATCH_DOING_WORDS = WATCH_DOING / 8
};

typedef _Atomic uint64_t watch_word_t;

/* What one rank tells, in memory its host shares. Written by that rank alone. */
typedef struct watch_area {
    watch_word_t rank1;            /* rank of the world + 1; 0: nobody's */
    watch_word_t pid, start_ticks; /* of the process; when the system started it */
    watch_word_t beats;            /* movements of the thread that works */
    watch_word_t looks;            /* of the thread that watches */
    watch_word_t patient;          /* may stand still for longer */
    watch_word_t differs;          /* asks for the records to be compared */
    watch_word_t told; /* of the first area: a rank of this host has said how they differ */
    watch_word_t doing[WATCH_DOING_WORDS];
    watch_word_t where[WATCH_WHERE_WORDS];
    watch_word_t wait[WATCH_RECORD_WORDS]; /* number 0: it does not wait */
    watch_word_t comms[WATCH_COMMS][WATCH_COMM_WORDS];
    watch_word_t records[WATCH_RECORDS][WATCH_RECORD_WORDS];
} watch_area_t;

/* A copy of it, as it is judged and sent around. */
typedef struct watch_view {
    int32_t rank, pid;
    uint64_t start_ticks;
    char host[WATCH_HOST];
    char process, thread; /* state letter of /proc, 'X' gone, '?' unknown */
    bool frozen;          /* even its watching thread stands still */
    bool patient, differs;
    double still_sec; /* nothing has moved on its host for so long */
    char doing[WATCH_DOING];
    watch_where_t where;
    watch_record_t wait;
    watch_comm_t comms[WATCH_COMMS];
    watch_record_t records[WATCH_RECORDS];
} watch_view_t;

/* ---- watch.c ---- */

/* The areas of the ranks of this host that share memory, *own among them; 0: not
 * open. */
int watch_areas(watch_area_t **areas, watch_area_t **own);
/* The same for all ranks of one run, and for no other run. */
uint64_t watch_token(void);
int watch_world(void); /* ranks */
/* Ends all ranks, by MPI if it is still able to. */
void watch_abort(int exit_code);

/* ---- watch_view.c ---- */

/* Memory that pt_alloc does not know, for a thread that may ask while a step is under
 * way. NULL: none. */
void *watch_map(size_t bytes);
void watch_unmap(void *memory, size_t bytes);
void watch_look(const watch_area_t *area, watch_view_t *out);
/* The start time of a process, and its state letter and that of its first thread; 0: it
 * is gone. */
uint64_t watch_process(int pid, char *process, char *thread);

/* ---- watch_graph.c ---- */

typedef enum watch_finding {
    WATCH_STILL,   /* nobody waits for anybody: `a` stands still */
    WATCH_ROOT,    /* `a` does not come; b waits for it, if b >= 0 */
    WATCH_ABSENT,  /* b waits for a rank of which nothing is known */
    WATCH_CYCLE,   /* `a` waits for b, and b for `a`, perhaps by way of others */
    WATCH_DIFFERS, /* a and b have begun different collectives as the same one */
    WATCH_ARRIVED /* all have come to what `a` waits in, and MPI does not complete it */
} watch_finding_t;

typedef struct watch_verdict {
    watch_finding_t finding;
    int a, b;              /* indices of views */
    int missing;           /* ABSENT: the first rank of the world without a view */
    char host[WATCH_HOST]; /* of that, "" unknown */
    int waiting;           /* ranks that wait for `a`, directly or not */
    bool asked; /* ranks know that collectives differ, whatever records say */
    bool begun; /* ROOT: `a` has begun what b waits in, and does not go on with it */
    watch_record_t at_a, at_b; /* what they wait in, or what differs */
} watch_verdict_t;

/* Pure. `views` of all ranks that are known, in any order; count > 0. False: no
 * memory. */
bool watch_judge(const watch_view_t *views, int count, watch_verdict_t *out);
/* Only: are there records of the same collective that differ? */
bool watch_find_difference(const watch_view_t *views, int count, watch_verdict_t *out);

/* ---- watch_text.c ---- */

pt_status_t watch_status(const watch_verdict_t *verdict);
/* One message of at most `size` bytes; `count` of the `world` ranks have views. */
void watch_describe(const watch_view_t *views, int count, int world,
                    const watch_verdict_t *verdict, char *text, size_t size);
/* A line of what a rank does; returns text. */
const char *watch_line(const watch_view_t *view, char *text, size_t size);
const char *watch_kind_name(int kind);
pt_where_t watch_place(const watch_where_t *where);

/* ---- watch_files.c ---- */

/* What the first living rank of a host says of it when nothing moves there, or when it
 * is asked. */
typedef enum watch_post_state {
    WATCH_MOVING,
    WATCH_STANDS,
    WATCH_ASKED
} watch_post_state_t;

typedef struct watch_post {
    const char *directory; /* DIRECTORY/hang holds the posts */
    watch_post_state_t state;
    const watch_view_t *views; /* of the ranks of this host */
    int count;
} watch_post_t;

/* What all hosts have posted. */
typedef struct watch_posts {
    watch_view_t *views; /* of `count` ranks; room for the world */
    int count;
    bool moving, asked; /* some host says so */
} watch_posts_t;

/* Puts the post of this host there, or renews it. */
void watch_post(const watch_post_t *post);
void watch_withdraw(const watch_post_t *post);
/* Reads all posts. False: there are none. */
bool watch_collect(const char *directory, watch_posts_t *out);
/* Only one host is to report. */
bool watch_elect(const char *directory);

/* ---- watch_thread.c ---- */

/* Does the thread watch a run, with the options of its configuration? */
bool watch_serves_run(void);

/* ---- watch_end.c ---- */

enum {
    WATCH_TEXT = 2048,
    WATCH_FILES_SEC = 20 /* files that take longer do not answer */
};

/* A thread that hears no signals. */
bool watch_start_thread(pthread_t *out, void *(*run)(void *), void *argument);
void watch_init_condition(pthread_cond_t *condition); /* of the monotonic clock */
struct timespec watch_after(double sec);
/* Did `work` end within the time? Else it is left behind, and so is what it uses: the
 * process is going to end. */
bool watch_do_within(double sec, void (*work)(void *self), void *self);
/* Judges, reports and ends all ranks. asked: ranks know that collectives differ. Does
 * not return. */
void watch_conclude(const pt_watch_options_t *options, const watch_view_t *views,
                    int count, bool asked);
void watch_end_run(int exit_code);

/* ---- words ---- */

static inline void watch_store(watch_word_t *to, const void *from, int words)
{
    uint64_t word;

    for (int i = 0; i < words; i++) {
        memcpy(&word, (const char *)from + 8 * i, 8);
        atomic_store_explicit(&to[i], word, memory_order_relaxed);
    }
}

static inline void watch_load(const watch_word_t *from, void *to, int words)
{
    uint64_t word;

    for (int i = 0; i < words; i++) {
        word = atomic_load_explicit(&from[i], memory_order_relaxed);
        memcpy((char *)to + 8 * i, &word, 8);
    }
}

static inline uint64_t watch_get(const watch_word_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static inline void watch_set(watch_word_t *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_relaxed);
}

#endif
