/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of a run that stands still. */
#include "src/comm/watch.h"

#include "penta/base/text.h"

const char *watch_kind_name(int kind)
{
    switch (kind) {
    case PT_TRANSPORT_BARRIER: return "barrier";
    case PT_TRANSPORT_GATHER: return "gather";
    case WATCH_SPLIT: return "MPI_Comm_split";
    case WATCH_FREE: return "MPI_Comm_free";
    case WATCH_FINALIZE: return "MPI_Finalize";
    case WATCH_DEVICE: return "work of its device";
    default: return pt_transfer_kind_name((pt_transfer_kind_t)kind);
    }
}

pt_status_t watch_status(const watch_verdict_t *verdict)
{
    return verdict->asked || verdict->finding == WATCH_DIFFERS ||
                   verdict->finding == WATCH_CYCLE
               ? PT_INTERNAL
               : PT_HANG;
}

pt_where_t watch_place(const watch_where_t *where)
{
    return (pt_where_t){.phase = (pt_phase_t)where->phase,
                        .step = where->step,
                        .layer = where->layer,
                        .chunk = where->chunk,
                        .micro_batch = where->micro_batch,
                        .site = where->site[0] ? where->site : NULL};
}

static void watch_add_place(pt_text_t *text, const watch_where_t *where)
{
    char buffer[160];
    pt_where_t place = watch_place(where);

    pt_text_add(text, "%s", pt_where_text(&place, buffer, sizeof buffer));
}

static void watch_add_rank(pt_text_t *text, const watch_view_t *view)
{
    pt_text_add(text, "rank %d (host %s, process %d)", view->rank, view->host,
                view->pid);
}

/* "reduce-scatter of 4096 bytes over data, number 12" */
static void watch_add_operation(pt_text_t *text, const watch_view_t *view,
                                const watch_record_t *record)
{
    pt_text_add(text, "%s", watch_kind_name(record->kind));
    if (record->kind == WATCH_DEVICE)
        return;
    if (record->bytes > 0)
        pt_text_add(text, " of %lld bytes", (long long)record->bytes);
    for (int s = 0; s < WATCH_COMMS; s++)
        if (view->comms[s].id == record->comm)
            pt_text_add(text, " over %s", view->comms[s].name);
    if (record->kind == PT_SEND || record->kind == PT_RECV)
        pt_text_add(text, " %s member %d, tag %lld",
                    record->kind == PT_SEND ? "to" : "from", record->peer,
                    (long long)record->tag);
    else
        pt_text_add(text, ", number %lld", (long long)record->sequence);
}

/* The operation, and where in the run it was begun. */
static void watch_add_begun(pt_text_t *text, const watch_view_t *view,
                            const watch_record_t *record)
{
    watch_add_operation(text, view, record);
    pt_text_add(text, " (");
    watch_add_place(text, &record->where);
    pt_text_add(text, ")");
}

/* Why it does not move, as far as the system knows. */
static void watch_add_state(pt_text_t *text, const watch_view_t *view)
{
    if (view->process == 'T' || view->process == 't')
        pt_text_add(text, "its process is stopped (SIGSTOP or a debugger)");
    else if (view->process == 'X' || view->process == 'Z')
        pt_text_add(text, "its process is dead");
    else if (view->frozen)
        pt_text_add(text, "its process does not run (state %c)", view->process);
    else if (view->thread == 'D')
        pt_text_add(text, "it waits for a disk or a file server");
    else if (view->thread == 'R')
        pt_text_add(text, "it computes or loops");
    else
        pt_text_add(text, "it sleeps");
    if (view->doing[0])
        pt_text_add(text, " in %s", view->doing);
}

static void watch_describe_difference(pt_text_t *text, const watch_view_t *a,
                                      const watch_view_t *b,
                                      const watch_verdict_t *verdict)
{
    pt_text_add(
        text, "the ranks have begun different collectives, a defect of the program: ");
    watch_add_rank(text, a);
    pt_text_add(text, " began ");
    watch_add_begun(text, a, &verdict->at_a);
    pt_text_add(text, ", where ");
    watch_add_rank(text, b);
    pt_text_add(text, " began ");
    watch_add_begun(text, b, &verdict->at_b);
}

/* It went on alone, and noticed. */
static void watch_describe_omission(pt_text_t *text, const watch_view_t *views,
                                    const watch_verdict_t *verdict)
{
    const watch_view_t *b = &views[verdict->b];

    pt_text_add(
        text, "the ranks have begun different collectives, a defect of the program: ");
    watch_add_rank(text, &views[verdict->a]);
    pt_text_add(text, " left out ");
    watch_add_begun(text, b, &verdict->at_b);
    pt_text_add(text, ", in which rank %d waits", b->rank);
}

static void watch_describe_cycle(pt_text_t *text, const watch_view_t *a,
                                 const watch_view_t *b, const watch_verdict_t *verdict)
{
    pt_text_add(text, "ranks wait for each other, as they have begun collectives in "
                      "different orders or one of them left some out, a defect of the "
                      "program: ");
    watch_add_rank(text, a);
    pt_text_add(text, " waits in ");
    watch_add_begun(text, a, &verdict->at_a);
    pt_text_add(text, " for ");
    watch_add_rank(text, b);
    pt_text_add(text, ", which waits in ");
    watch_add_begun(text, b, &verdict->at_b);
}

static void watch_describe_waiting(pt_text_t *text, const watch_view_t *views,
                                   const watch_verdict_t *verdict)
{
    const watch_view_t *b = verdict->b >= 0 ? &views[verdict->b] : NULL;

    pt_text_add(text, "; ");
    if (!b) {
        pt_text_add(text, "no rank waits for it");
        return;
    }
    if (verdict->waiting == 1)
        pt_text_add(text, "rank %d waits", b->rank);
    else
        pt_text_add(text, "%d ranks (%d and others) wait", verdict->waiting, b->rank);
    pt_text_add(text, " for it in ");
    watch_add_begun(text, b, &verdict->at_b);
    pt_text_add(text, ", which it has %sbegun", verdict->begun ? "" : "not ");
}

static void watch_describe_root(pt_text_t *text, const watch_view_t *views,
                                const watch_verdict_t *verdict)
{
    const watch_view_t *a = &views[verdict->a];

    watch_add_rank(text, a);
    pt_text_add(text, " holds up the run in ");
    watch_add_place(text, &a->where);
    pt_text_add(text, ": ");
    if (a->wait.number > 0) {
        pt_text_add(text, "it waits in ");
        watch_add_operation(text, a, &a->wait);
        pt_text_add(text, ", and ");
    }
    watch_add_state(text, a);
    watch_describe_waiting(text, views, verdict);
}

static void watch_describe_absence(pt_text_t *text, int count, int world,
                                   const watch_verdict_t *verdict)
{
    pt_text_add(text, "rank %d ", verdict->missing);
    if (verdict->host[0])
        pt_text_add(text, "(host %s) ", verdict->host);
    pt_text_add(text, "holds up the run: nothing is seen of it");
    if (world - count > 1)
        pt_text_add(text, " and %d more", world - count - 1);
    pt_text_add(text,
                ", its processes are stopped or dead, or its host does not see the "
                "run directory");
}

void watch_describe(const watch_view_t *views, int count, int world,
                    const watch_verdict_t *verdict, char *buffer, size_t size)
{
    pt_text_t text = pt_text_init(buffer, size);
    const watch_view_t *a = &views[verdict->a];
    char time[32];

    if (verdict->asked && verdict->finding == WATCH_ROOT) {
        watch_describe_omission(&text, views, verdict);
        return;
    }
    if (verdict->asked && verdict->finding != WATCH_DIFFERS)
        pt_text_add(&text,
                    "the ranks have begun different collectives, a defect of the "
                    "program, and the records do not show where; ");
    switch (verdict->finding) {
    case WATCH_DIFFERS:
        watch_describe_difference(&text, a, &views[verdict->b], verdict);
        return;
    case WATCH_CYCLE:
        watch_describe_cycle(&text, a, &views[verdict->b], verdict);
        break;
    case WATCH_ABSENT:
        watch_describe_absence(&text, count, world, verdict);
        pt_text_add(&text, "; ");
        watch_add_rank(&text, a);
        pt_text_add(&text, " waits in ");
        watch_add_operation(&text, a, &verdict->at_b);
        pt_text_add(&text, " (");
        watch_add_place(&text, &verdict->at_b.where);
        pt_text_add(&text, ")");
        break;
    case WATCH_ARRIVED:
        pt_text_add(&text, "all ranks have come to ");
        watch_add_operation(&text, a, &verdict->at_a);
        pt_text_add(&text, " (");
        watch_add_place(&text, &verdict->at_a.where);
        pt_text_add(&text, "), but MPI does not complete it on ");
        watch_add_rank(&text, a);
        pt_text_add(&text, ": look for a broken network");
        break;
    default: watch_describe_root(&text, views, verdict); break;
    }
    pt_text_add(&text, "; nothing has moved for %s (run.hang_timeout)",
                pt_text_duration(a->still_sec, time, sizeof time));
}

const char *watch_line(const watch_view_t *view, char *buffer, size_t size)
{
    pt_text_t text = pt_text_init(buffer, size);

    watch_add_rank(&text, view);
    pt_text_add(&text, ": ");
    watch_add_place(&text, &view->where);
    if (view->wait.number > 0) {
        pt_text_add(&text, "; waits in ");
        watch_add_operation(&text, view, &view->wait);
    } else {
        pt_text_add(&text, "; ");
        watch_add_state(&text, view);
    }
    return buffer;
}
