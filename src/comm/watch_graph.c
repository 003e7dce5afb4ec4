/* SPDX-License-Identifier: Apache-2.0 */
/* Who waits for whom, and what did they begin differently? Pure functions of the
 * records. */
#include "src/comm/watch.h"

#include <stdlib.h>

/* A member of a communicator; sorted by id, so that members lie together. */
typedef struct member {
    uint64_t id;
    int view, slot;
    int next; /* of the first one: whom those wait for that wait in collective `sequence` */
    int64_t sequence;
} member_t;

/* The collectives of all ranks; sorted, so that those of one number lie together. */
typedef struct entry {
    uint64_t comm;
    int64_t sequence;
    int view, record;
} entry_t;

typedef struct graph {
    const watch_view_t *views;
    int count;
    member_t *members;
    int member_count;
    int *next;  /* whom a rank waits for: a view, or one of the below */
    int *votes; /* ranks that wait for it, directly or not */
    int *seen;  /* the walk that was there last, from 1 */
} graph_t;

enum { NOBODY = -1, ABSENT = -2, ARRIVED = -3 };

static int watch_order_of(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* ---- collectives that differ -------------------------------------------------------------- */

static int watch_compare_entries(const void *a, const void *b)
{
    const entry_t *x = a, *y = b;
    int order = watch_order_of((uint64_t)x->sequence, (uint64_t)y->sequence);

    if (order == 0)
        order = watch_order_of(x->comm, y->comm);
    return order != 0 ? order : x->view - y->view;
}

static int watch_list_entries(const watch_view_t *views, int count, entry_t *out)
{
    int n = 0;

    for (int v = 0; v < count; v++)
        for (int r = 0; r < WATCH_RECORDS; r++) {
            const watch_record_t *record = &views[v].records[r];
            if (record->number > 0 && record->sequence > 0)
                out[n++] = (entry_t){record->comm, record->sequence, v, r};
        }
    return n;
}

static bool watch_is_same(const watch_record_t *a, const watch_record_t *b)
{
    return a->kind == b->kind && a->bytes == b->bytes && a->peer == b->peer;
}

/* The earliest pair: what comes after it is a consequence. Sequences of several
 * communicators are not comparable, so the earliest is that begun first. */
bool watch_find_difference(const watch_view_t *views, int count, watch_verdict_t *out)
{
    size_t bytes = (size_t)count * WATCH_RECORDS * sizeof(entry_t);
    entry_t *entries = watch_map(bytes);
    bool found = false;

    if (!entries)
        return false;
    int n = watch_list_entries(views, count, entries);
    qsort(entries, (size_t)n, sizeof *entries, watch_compare_entries);
    for (int i = 0, first = 0; i < n; i++) {
        if (entries[i].comm != entries[first].comm ||
            entries[i].sequence != entries[first].sequence)
            first = i;
        const watch_record_t *a =
            &views[entries[first].view].records[entries[first].record];
        const watch_record_t *b = &views[entries[i].view].records[entries[i].record];
        if (watch_is_same(a, b) || (found && a->begun_nsec >= out->at_a.begun_nsec))
            continue;
        *out = (watch_verdict_t){.finding = WATCH_DIFFERS,
                                 .a = entries[first].view,
                                 .b = entries[i].view,
                                 .at_a = *a,
                                 .at_b = *b};
        found = true;
    }
    watch_unmap(entries, bytes);
    return found;
}

/* ---- whom a rank waits for ---------------------------------------------------------------- */

static int watch_compare_members(const void *a, const void *b)
{
    const member_t *x = a, *y = b;
    int order = watch_order_of(x->id, y->id);

    return order != 0 ? order : x->view - y->view;
}

static void watch_list_members(graph_t *graph)
{
    for (int v = 0; v < graph->count; v++)
        for (int s = 0; s < WATCH_COMMS; s++)
            if (graph->views[v].comms[s].id != 0)
                graph->members[graph->member_count++] =
                    (member_t){.id = graph->views[v].comms[s].id, .view = v, .slot = s};
    qsort(graph->members, (size_t)graph->member_count, sizeof *graph->members,
          watch_compare_members);
}

static int watch_first_member(const graph_t *graph, uint64_t id)
{
    int low = 0, high = graph->member_count;

    while (low < high) {
        int middle = low + (high - low) / 2;
        if (graph->members[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool watch_is_waiting(const watch_view_t *view)
{
    return view->wait.number > 0 && !view->frozen;
}

static const watch_comm_t *comm_of(const graph_t *graph, int member)
{
    const member_t *m = &graph->members[member];

    return &graph->views[m->view].comms[m->slot];
}

/* Has it begun this collective and not completed it? Where the record is overwritten
 * the counts must do. */
static bool watch_is_under_way(const watch_view_t *view, const watch_comm_t *comm,
                               const watch_record_t *what)
{
    for (int r = 0; r < WATCH_RECORDS; r++) {
        const watch_record_t *record = &view->records[r];
        if (record->number > 0 && record->comm == what->comm &&
            record->sequence == what->sequence)
            return record->done_nsec == 0;
    }
    return comm->begun > comm->done;
}

/* How much a member stands in the way of `what`: 0 not at all. One that cannot move at
 * all stands there more than one that does something else, and that more than one that
 * waits itself. */
static int watch_blame(const graph_t *graph, int member, const watch_record_t *what)
{
    const watch_comm_t *comm = comm_of(graph, member);
    const watch_view_t *view = &graph->views[graph->members[member].view];

    if (what->sequence == 0)
        return comm->rank == what->peer ? 9 : 0;
    if (comm->begun < what->sequence)
        return view->frozen ? 8 : watch_is_waiting(view) ? 6 : 7;
    if (!watch_is_under_way(view, comm, what))
        return 0;
    return view->frozen ? 5 : watch_is_waiting(view) ? 0 : 4;
}

/* Of the members from `first` on, the one that stands most in the way. One of which
 * nothing is known may; else all are there, and nothing comes. */
static int watch_find_blamed(const graph_t *graph, int first, const watch_record_t *what)
{
    int next = ARRIVED, most = 0, members = 0, size = 0;

    for (int m = first; m < graph->member_count && graph->members[m].id == what->comm;
         m++) {
        int mine = watch_blame(graph, m, what);
        members++;
        size = comm_of(graph, m)->size;
        if (mine > most) {
            most = mine;
            next = graph->members[m].view;
        }
    }
    return members < size && most < 6 ? ABSENT : next;
}

static int watch_find_next(graph_t *graph, int v)
{
    const watch_record_t *what = &graph->views[v].wait;
    int first = watch_first_member(graph, what->comm);
    member_t *head = &graph->members[first];

    if (!watch_is_waiting(&graph->views[v]) || what->kind == WATCH_DEVICE ||
        first == graph->member_count)
        return NOBODY;
    if (what->sequence > 0 && head->sequence == what->sequence)
        return head->next;
    int next = watch_find_blamed(graph, first, what);
    if (what->sequence > 0) {
        head->sequence = what->sequence;
        head->next = next;
    }
    return next;
}

/* ---- the root ----------------------------------------------------------------------------- */

/* Follows the waiting from v to its end; on a cycle to the member met first, *cycle
 * then. */
static int watch_follow(graph_t *graph, int v, bool *cycle)
{
    int walk = v + 1;

    *cycle = false;
    while (graph->seen[v] != walk) {
        graph->seen[v] = walk;
        if (graph->next[v] < 0)
            return v;
        v = graph->next[v];
    }
    *cycle = true;
    return v;
}

/* The least view of a cycle stands for it. */
static int watch_least_of_cycle(const graph_t *graph, int v)
{
    int least = v;

    for (int u = graph->next[v]; u != v; u = graph->next[u])
        least = u < least ? u : least;
    return least;
}

static int watch_count_votes(graph_t *graph)
{
    int best = -1;
    bool cycle;

    for (int v = 0; v < graph->count; v++) {
        int end = watch_follow(graph, v, &cycle);
        end = cycle ? watch_least_of_cycle(graph, end) : end;
        graph->votes[end] += end != v;
    }
    for (int v = 0; v < graph->count; v++) {
        const watch_view_t *view = &graph->views[v];
        int weight = 2 * graph->votes[v] + view->frozen;
        if (best < 0 || weight > 2 * graph->votes[best] + graph->views[best].frozen)
            best = v;
    }
    return best;
}

/* Of those that wait for it directly, the first. */
static int watch_first_waiter(const graph_t *graph, int v)
{
    for (int u = 0; u < graph->count; u++)
        if (graph->next[u] == v)
            return u;
    return -1;
}

static bool watch_has_begun(const watch_view_t *view, const watch_record_t *what)
{
    for (int s = 0; s < WATCH_COMMS; s++)
        if (view->comms[s].id == what->comm)
            return what->sequence > 0 && view->comms[s].begun >= what->sequence;
    return false;
}

/* Views come in the order of ranks. */
static int watch_find_missing(const graph_t *graph)
{
    int missing = 0;

    while (missing < graph->count && graph->views[missing].rank == missing)
        missing++;
    return missing;
}

static void watch_judge_end(graph_t *graph, int end, watch_verdict_t *out)
{
    const watch_view_t *view = &graph->views[end];

    out->a = end;
    out->b = watch_first_waiter(graph, end);
    out->waiting = graph->votes[end];
    out->at_a = view->wait;
    if (graph->next[end] >= 0) {
        out->finding = WATCH_CYCLE;
        out->b = graph->next[end];
        out->at_b = graph->views[out->b].wait;
    } else if (graph->next[end] == ABSENT) {
        out->finding = WATCH_ABSENT;
        out->b = end;
        out->at_b = view->wait;
        out->missing = watch_find_missing(graph);
    } else if (graph->next[end] == ARRIVED) {
        out->finding = WATCH_ARRIVED;
    } else if (out->b >= 0) {
        out->finding = WATCH_ROOT;
        out->at_b = graph->views[out->b].wait;
        out->begun = watch_has_begun(view, &out->at_b);
    } else {
        out->finding = WATCH_STILL;
    }
}

bool watch_judge(const watch_view_t *views, int count, watch_verdict_t *out)
{
    size_t per_view = WATCH_COMMS * sizeof(member_t) + 3 * sizeof(int);
    size_t bytes = (size_t)count * per_view;
    graph_t graph = {.views = views, .count = count, .members = watch_map(bytes)};

    *out = (watch_verdict_t){.b = -1};
    if (!graph.members)
        return false;
    graph.next = (int *)(graph.members + (size_t)count * WATCH_COMMS);
    graph.votes = graph.next + count;
    graph.seen = graph.votes + count;
    watch_list_members(&graph);
    for (int v = 0; v < count; v++)
        graph.next[v] = watch_find_next(&graph, v);
    if (!watch_find_difference(views, count, out))
        watch_judge_end(&graph, watch_count_votes(&graph), out);
    watch_unmap(graph.members, bytes);
    return true;
}
