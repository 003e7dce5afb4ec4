/* SPDX-License-Identifier: Apache-2.0 */
/* Records of what this rank does, in memory that the ranks of its host share. */
#include "src/comm/watch.h"

#include "penta/base/clock.h"
#include "penta/base/fault.h"
#include "penta/base/log.h"
#include "penta/base/rng.h"
#include "penta/base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { WORLD_ID = 1, PATH_BYTES = 128 };

/* What this rank knows of its communicators, beside what it tells. */
typedef struct watch_slot {
    watch_comm_t comm;
    uint64_t splits; /* communicators made of it: their identities follow from it */
    uint64_t hash;   /* of the collectives begun */
} watch_slot_t;

_Static_assert(offsetof(watch_record_t, number) == 0, "publish writes it last");

/* Mutable globals: the thread that watches and the hooks in the state machine need
 * them. */
static struct {
    pt_transport_t *transport; /* NULL: not open */
    void (*abort)(int exit_code);
    int world; /* ranks */
    watch_area_t *areas, *own;
    int count; /* of areas */
    size_t bytes;
    uint64_t token, number;
    watch_slot_t slots[WATCH_COMMS];
    bool waits;
} watch;

int watch_areas(watch_area_t **areas, watch_area_t **own)
{
    *areas = watch.areas;
    *own = watch.own;
    return watch.transport ? watch.count : 0;
}

uint64_t watch_token(void)
{
    return watch.token;
}

int watch_world(void)
{
    return watch.world;
}

void watch_abort(int exit_code)
{
    watch.abort(exit_code);
    pt_transport_leave(NULL, exit_code);
}

/* ---- memory ------------------------------------------------------------------------------- */

static const char *watch_memory_path(char path[PATH_BYTES])
{
    char host[WATCH_HOST] = "";

    (void)gethostname(host, sizeof host - 1);
    for (char *c = host; *c; c++)
        if (*c == '/')
            *c = '_';
    snprintf(path, PATH_BYTES, "/dev/shm/penta-watch-%s-%016llx", host,
             (unsigned long long)watch.token);
    return path;
}

/* All ranks of a host open the same file; a rank that cannot keeps its records to
 * itself. */
static watch_area_t *watch_share_memory(void)
{
    char path[PATH_BYTES];
    int fd =
        open(watch_memory_path(path), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    void *memory = MAP_FAILED;

    if (fd < 0)
        return NULL;
    if (posix_fallocate(fd, 0, (off_t)watch.bytes) == 0)
        memory = mmap(NULL, watch.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return memory == MAP_FAILED ? NULL : memory;
}

static watch_area_t *watch_claim(watch_area_t *areas, int count, int rank)
{
    for (int i = 0; i < count; i++) {
        uint64_t nobody = 0;
        if (atomic_compare_exchange_strong(&areas[i].rank1, &nobody, (uint64_t)rank + 1))
            return &areas[i];
    }
    return NULL;
}

static pt_status_t watch_open_memory(int rank, int ranks_on_host)
{
    watch.count = ranks_on_host;
    watch.bytes = (size_t)ranks_on_host * sizeof(watch_area_t);
    watch.areas = watch_share_memory();
    if (watch.areas)
        watch.own = watch_claim(watch.areas, watch.count, rank);
    if (watch.own)
        return PT_OK;
    if (watch.areas)
        watch_unmap(watch.areas, watch.bytes);
    watch.count = 1;
    watch.bytes = sizeof(watch_area_t);
    watch.areas = watch_map(watch.bytes);
    PT_CHECK(watch.areas, PT_MEMORY, "no memory for the records of the watchdog");
    watch.own = watch_claim(watch.areas, 1, rank);
    return PT_OK;
}

static pt_status_t watch_open_together(pt_comm_t *world)
{
    char path[PATH_BYTES];
    pt_status_t status;

    watch.token =
        pt_mix64((uint64_t)(pt_clock_wall() * 1e6) ^ (uint64_t)getpid() << 40);
    PT_TRY(pt_comm_broadcast_bytes(world, 0, &watch.token, sizeof watch.token));
    status =
        watch_open_memory(pt_comm_rank(world), pt_engine_ranks_on_host(world->engine));
    /* Nobody else needs the name: it goes before anything can fail. */
    PT_TRY(pt_comm_agree(world, status, false));
    (void)unlink(watch_memory_path(path));
    return PT_OK;
}

pt_status_t pt_watch_open(pt_transport_t *transport, void (*abort)(int exit_code))
{
    pt_engine_t *engine = NULL;
    char process, thread;
    pt_status_t status;

    PT_TRY(pt_engine_create(transport, &(pt_engine_options_t){.device = NULL}, &engine));
    status = watch_open_together(pt_engine_world(engine));
    pt_engine_destroy(engine);
    if (status != PT_OK)
        return status;
    watch_set(&watch.own->pid, (uint64_t)getpid());
    watch_set(&watch.own->start_ticks, watch_process(getpid(), &process, &thread));
    watch_set(&watch.own->patient, true);
    watch.world = transport->world->size;
    watch.abort = abort;
    watch.transport = transport;
    pt_watch_beat();
    return PT_OK;
}

void watch_forget(void)
{
    if (watch.areas)
        watch_unmap(watch.areas, watch.bytes);
    memset(&watch, 0, sizeof watch);
}

/* ---- communicators ------------------------------------------------------------------------ */

static void watch_tell_comm(const watch_slot_t *slot)
{
    watch_store(watch.own->comms[slot - watch.slots], &slot->comm, WATCH_COMM_WORDS);
}

void watch_join(pt_comm_t *comm, const pt_comm_t *parent, int color)
{
    uint64_t id = WORLD_ID;
    watch_slot_t *slot = NULL;

    if (!watch.transport || comm->engine->transport != watch.transport ||
        (parent && !parent->watch))
        return;
    if (parent)
        id = pt_mix64(parent->watch->comm.id ^
                      pt_mix64(++parent->watch->splits << 32 ^ (uint32_t)color));
    if (!comm->group)
        return;
    for (int i = WATCH_COMMS - 1; i >= 0; i--)
        if (watch.slots[i].comm.id == 0 || watch.slots[i].comm.id == id)
            slot = &watch.slots[i];
    comm->watch = slot;               /* NULL: more communicators than are watched */
    if (!slot || slot->comm.id == id) /* the world of another engine */
        return;
    *slot = (watch_slot_t){
        .comm = {.id = id, .rank = comm->group->rank, .size = comm->group->size}};
    snprintf(slot->comm.name, sizeof slot->comm.name, "%s", comm->name);
    watch_tell_comm(slot);
}

void watch_leave(pt_comm_t *comm)
{
    if (!comm->watch)
        return;
    *comm->watch = (watch_slot_t){.splits = 0};
    watch_tell_comm(comm->watch);
    comm->watch = NULL;
}

/* Members weigh size - 1, -1, -1 ...: equal hashes add up to nothing. */
int64_t pt_watch_signature(void)
{
    uint64_t sum = 0;

    for (int i = 0; i < WATCH_COMMS; i++) {
        const watch_comm_t *comm = &watch.slots[i].comm;
        uint64_t weight = comm->rank == 0 ? (uint64_t)comm->size - 1 : UINT64_MAX;
        if (comm->id != 0)
            sum += weight * watch.slots[i].hash;
    }
    return (int64_t)sum;
}

/* ---- records: the path of every transfer -------------------------------------------------- */

/* Milliseconds are enough, and this clock takes a few nanoseconds. */
static int64_t watch_now_nsec(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static watch_where_t watch_where_now(void)
{
    const pt_where_t *where = pt_log_where();
    watch_where_t out = {.step = where->step,
                         .phase = (int32_t)where->phase,
                         .layer = where->layer,
                         .chunk = where->chunk,
                         .micro_batch = where->micro_batch};

    for (size_t i = 0; where->site && where->site[i] && i + 1 < sizeof out.site; i++)
        out.site[i] = where->site[i];
    return out;
}

static void watch_moved(void)
{
    watch_set(&watch.own->beats, watch_get(&watch.own->beats) + 1);
}

void pt_watch_beat(void)
{
    if (!watch.transport || watch.waits)
        return;
    watch_where_t where = watch_where_now();
    watch_store(watch.own->where, &where, WATCH_WHERE_WORDS);
    watch_moved();
}

void pt_watch_mark(const char *doing)
{
    char text[WATCH_DOING] = "";

    if (!watch.transport)
        return;
    snprintf(text, sizeof text, "%s", doing ? doing : "");
    watch_store(watch.own->doing, text, WATCH_DOING_WORDS);
    pt_watch_beat();
}

void pt_watch_be_patient(bool patient)
{
    if (watch.transport)
        watch_set(&watch.own->patient, patient);
}

/* The number comes last: a reader that finds it finds the rest. */
static void watch_publish(watch_word_t *words, const watch_record_t *record)
{
    watch_set(words, 0);
    atomic_thread_fence(memory_order_release);
    watch_store(words + 1, (const char *)record + 8, WATCH_RECORD_WORDS - 1);
    atomic_store_explicit(words, record->number, memory_order_release);
}

static watch_word_t *watch_words_of(uint64_t number)
{
    return watch.own->records[number % WATCH_RECORDS];
}

#define WORD_OF(member) (offsetof(watch_record_t, member) / 8)

static watch_record_t watch_record_of(const pt_comm_t *comm, int kind)
{
    return (watch_record_t){.comm = comm->watch->comm.id,
                            .kind = kind,
                            .where = watch_where_now(),
                            .begun_nsec = watch_now_nsec()};
}

static watch_record_t watch_record_of_request(const pt_request_t *request)
{
    const pt_transfer_t *transfer = &request->transfer;
    const pt_transport_move_t *move = &request->ticket.move;
    bool small = transfer->kind == PT_TRANSFER_KINDS;
    watch_record_t record =
        watch_record_of(transfer->comm, small ? move->kind : (int)transfer->kind);

    record.bytes =
        move->send_counts ? -1 : move->count * (int64_t)pt_dtype_size(move->dtype);
    record.peer = move->peer;
    record.tag = move->tag;
    return record;
}

static watch_ticket_t watch_begin(watch_slot_t *slot, watch_record_t *record)
{
    record->number = ++watch.number;
    if (record->kind != PT_SEND && record->kind != PT_RECV) {
        watch_word_t *words = watch.own->comms[slot - watch.slots];
        record->sequence = ++slot->comm.begun;
        slot->hash =
            pt_mix64(slot->hash ^ (uint64_t)record->bytes ^
                     (uint64_t)record->kind << 56 ^ (uint64_t)record->peer << 32);
        watch_set(&words[offsetof(watch_comm_t, begun) / 8], (uint64_t)record->sequence);
    }
    watch_publish(watch_words_of(record->number), record);
    watch_store(watch.own->where, &record->where, WATCH_WHERE_WORDS);
    watch_moved();
    return (watch_ticket_t){.number = record->number, .sequence = record->sequence};
}

void watch_begin_request(pt_request_t *request)
{
    watch_slot_t *slot = request->transfer.comm->watch;

    if (!slot)
        return;
    watch_record_t record = watch_record_of_request(request);
    request->watch = watch_begin(slot, &record);
}

static void watch_stamp(watch_ticket_t ticket, size_t word)
{
    watch_word_t *words = watch_words_of(ticket.number);

    if (watch_get(words) == ticket.number)
        watch_set(&words[word], (uint64_t)watch_now_nsec());
    watch_moved();
}

void watch_on_wire(watch_ticket_t ticket)
{
    if (ticket.number > 0 && watch.transport)
        watch_stamp(ticket, WORD_OF(wire_nsec));
}

void watch_done(const pt_comm_t *comm, watch_ticket_t ticket)
{
    watch_slot_t *slot = comm->watch;

    if (ticket.number == 0 || !slot)
        return;
    watch_stamp(ticket, WORD_OF(done_nsec));
    if (ticket.sequence > 0)
        watch_set(
            &watch.own->comms[slot - watch.slots][offsetof(watch_comm_t, done) / 8],
            (uint64_t)++slot->comm.done);
}

static void watch_wait_in(const watch_record_t *record)
{
    watch_store(watch.own->where, &record->where, WATCH_WHERE_WORDS);
    watch_publish(watch.own->wait, record);
    watch.waits = true;
}

void watch_wait_request(const pt_request_t *request)
{
    if (request->watch.number == 0 || watch.waits)
        return;
    watch_record_t record = watch_record_of_request(request);
    record.number = request->watch.number;
    record.sequence = request->watch.sequence;
    watch_wait_in(&record);
}

void watch_wait_device(void)
{
    if (!watch.transport || watch.waits)
        return;
    watch_wait_in(&(watch_record_t){.number = UINT64_MAX,
                                    .kind = WATCH_DEVICE,
                                    .where = watch_where_now(),
                                    .begun_nsec = watch_now_nsec()});
}

void watch_waited(void)
{
    if (!watch.waits)
        return;
    watch_set(watch.own->wait, 0);
    watch.waits = false;
    watch_moved();
}

watch_ticket_t watch_block(const pt_comm_t *comm, int kind)
{
    if (!comm->watch)
        return (watch_ticket_t){.number = 0};
    watch_record_t record = watch_record_of(comm, kind);
    if (kind == WATCH_FINALIZE) /* the run has taken its place with it */
        record.where.phase = PT_PHASE_FINISH;
    watch_ticket_t ticket = watch_begin(comm->watch, &record);
    watch_wait_in(&record);
    return ticket;
}

void watch_blocked(const pt_comm_t *comm, watch_ticket_t ticket)
{
    watch_waited();
    watch_done(comm, ticket);
}

void pt_watch_finish(void)
{
    for (int i = 0; watch.transport && i < WATCH_COMMS; i++)
        if (watch.slots[i].comm.id == WORLD_ID)
            (void)watch_block(&(pt_comm_t){.watch = &watch.slots[i]}, WATCH_FINALIZE);
}

/* Where collectives of a phase can be injected with failures. */
static const char *const sites[PT_PHASE_COUNT] = {
    [PT_PHASE_SETUP] = "comm.setup",
    [PT_PHASE_LOAD] = "comm.load",
    [PT_PHASE_DATA] = "comm.data",
    [PT_PHASE_FORWARD] = "comm.forward",
    [PT_PHASE_BACKWARD] = "comm.backward",
    [PT_PHASE_WEIGHT_GRADIENT] = "comm.backward",
    [PT_PHASE_REDUCE] = "comm.reduce",
    [PT_PHASE_EXCHANGE] = "comm.exchange",
    [PT_PHASE_OPTIMIZER] = "comm.optimizer",
    [PT_PHASE_EVALUATE] = "comm.evaluate",
    [PT_PHASE_SAVE] = "comm.save",
};

bool watch_inject(const pt_comm_t *comm, pt_transport_move_t *move)
{
    pt_watch_beat();
    const char *site = sites[pt_log_where()->phase];
    pt_fault_kind_t kind =
        comm->watch && site && watch_serves_run() ? pt_fault(site) : PT_FAULT_NONE;

    move->count -= kind == PT_FAULT_RESIZE && move->count > 0;
    return kind == PT_FAULT_SKIP;
}

void watch_ask(void)
{
    if (watch.transport)
        watch_set(&watch.own->differs, true);
}
