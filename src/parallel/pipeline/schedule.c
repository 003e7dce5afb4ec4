#include "penta/parallel/schedule.h"
#include "penta/base/alloc.h"
#include "penta/base/text.h"

#include <string.h>

/* GPipe (Huang et al. 2019): all forwards, then all backwards. 1F1B (Narayanan et al. 2021, §2.2.1):
 * stage s of S runs S-1-s forwards ahead, then alternates. Backward here is B with its W at once. */
static int warm_up(pt_schedule_kind_t kind, int stage, int stages, int micro_batches)
{
    int ahead = kind == PT_SCHEDULE_GPIPE ? micro_batches : stages - stage;
    return ahead < micro_batches ? ahead : micro_batches;
}

static void fill_stage(pt_action_t *list, int ahead, int micro_batches)
{
    int n = 0, forward = 0;
    while (forward < ahead)
        list[n++] = (pt_action_t){.kind = PT_ACTION_F, .micro_batch = forward++};
    for (int backward = 0; backward < micro_batches; backward++) {
        list[n++] = (pt_action_t){.kind = PT_ACTION_B, .micro_batch = backward};
        list[n++] = (pt_action_t){.kind = PT_ACTION_W, .micro_batch = backward};
        if (forward < micro_batches)
            list[n++] = (pt_action_t){.kind = PT_ACTION_F, .micro_batch = forward++};
    }
}

pt_status_t pt_schedule_create(pt_schedule_kind_t kind, int stages, int chunks,
                               int micro_batches, pt_schedule_t *out)
{
    pt_status_t status;
    *out = (pt_schedule_t){
        .stages = stages, .chunks = chunks, .micro_batches = micro_batches};
    PT_REQUIRE(chunks == 1 && stages >= 1 && micro_batches >= 1);
    PT_TRY_GOTO(fail, PT_NEW("schedule counts", stages, &out->count));
    PT_TRY_GOTO(fail, PT_NEW("schedule lists", stages, &out->actions));
    PT_TRY_GOTO(fail, PT_NEW("schedule slots", chunks, &out->input_slots));
    PT_TRY_GOTO(fail, PT_NEW("schedule slots", chunks, &out->weight_slots));
    for (int s = 0; s < stages; s++) {
        out->count[s] = 3 * micro_batches;
        PT_TRY_GOTO(fail, PT_NEW("schedule list", out->count[s], &out->actions[s]));
        fill_stage(out->actions[s], warm_up(kind, s, stages, micro_batches),
                   micro_batches);
    }
    return PT_OK;
fail:
    pt_schedule_destroy(out);
    return status;
}

void pt_schedule_destroy(pt_schedule_t *schedule)
{
    for (int s = 0; schedule->actions && s < schedule->stages; s++)
        pt_free(schedule->actions[s]);
    pt_free(schedule->actions);
    pt_free(schedule->weight_slots);
    pt_free(schedule->input_slots);
    pt_free(schedule->count);
    *schedule = (pt_schedule_t){0};
}

/* What has been done of each (stage, chunk, micro-batch): a bit per kind of action. */
typedef struct progress {
    const pt_schedule_t *schedule;
    unsigned char *done; /* [stages][chunks][micro_batches] */
    int *next;           /* [stages] */
} progress_t;

static unsigned char *cell(const progress_t *p, int stage, const pt_action_t *a)
{
    const pt_schedule_t *s = p->schedule;
    return &p->done[((int64_t)stage * s->chunks + a->chunk) * s->micro_batches +
                    a->micro_batch];
}

static bool is_known(const pt_schedule_t *s, const pt_action_t *a)
{
    return (unsigned)a->kind <= PT_ACTION_W && a->chunk >= 0 && a->chunk < s->chunks &&
           a->micro_batch >= 0 && a->micro_batch < s->micro_batches;
}

/* F needs the stage before, B needs F here and the stage after, W needs B here. */
static bool is_possible(const progress_t *p, int stage, const pt_action_t *a)
{
    unsigned char here = *cell(p, stage, a);
    int last = p->schedule->stages - 1;
    switch (a->kind) {
    case PT_ACTION_F: return stage == 0 || *cell(p, stage - 1, a) & 1 << PT_ACTION_F;
    case PT_ACTION_B:
        return (here & 1 << PT_ACTION_F) &&
               (stage == last || *cell(p, stage + 1, a) & 1 << PT_ACTION_B);
    default: return here & 1 << PT_ACTION_B;
    }
}

static const char *action_text(const pt_action_t *a, char *buffer, size_t size)
{
    pt_text_t text = pt_text_init(buffer, size);
    pt_text_add(&text, "%c of chunk %d, micro-batch %d", "FBW"[a->kind], a -> chunk,
                a -> micro_batch);
    return buffer;
}

/* Advances every stage as far as it goes; true when something moved. */
static pt_status_t advance(progress_t *p, bool *moved)
{
    char text[96];
    *moved = false;
    for (int s = 0; s < p->schedule->stages; s++) {
        for (; p->next[s] < p->schedule->count[s]; p->next[s]++) {
            const pt_action_t *a = &p->schedule->actions[s][p->next[s]];
            PT_CHECK_COMMON(
                is_known(p->schedule, a), PT_CONFIG,
                "schedule: stage %d action %d is outside the %d chunks and %d "
                "micro-batches",
                s, p->next[s], p->schedule->chunks, p->schedule->micro_batches);
            unsigned char *done = cell(p, s, a);
            PT_CHECK_COMMON(!(*done & 1 << a->kind), PT_CONFIG,
                            "schedule: stage %d does %s twice", s,
                            action_text(a, text, sizeof text));
            if (!is_possible(p, s, a))
                break;
            *done |= (unsigned char)(1 << a->kind);
            *moved = true;
        }
    }
    return PT_OK;
}

static pt_status_t check_complete(const progress_t *p)
{
    char text[96];
    const pt_schedule_t *s = p->schedule;
    for (int stage = 0; stage < s->stages; stage++) {
        PT_CHECK_COMMON(
            p->next[stage] == s->count[stage], PT_CONFIG,
            "schedule: stage %d waits for ever before %s", stage,
            action_text(&s->actions[stage][p->next[stage]], text, sizeof text));
        PT_CHECK_COMMON(
            s->count[stage] == 3 * s->chunks * s->micro_batches, PT_CONFIG,
            "schedule: stage %d has %d actions, not F, B and W of %d chunks and %d "
            "micro-batches",
            stage, s->count[stage], s->chunks, s->micro_batches);
    }
    return PT_OK;
}

/* Who holds which slot while they are given out. */
typedef struct slots {
    int micro_batches;
    int *of;             /* [micro_batches]: -1 none */
    unsigned char *held; /* [micro_batches], by slot: no more are in use at once */
} slots_t;

/* Gives one kind of slot to the actions of a chunk, the lowest free one: taken by F, given back by
 * `last`. Returns the number of slots. */
static int assign_slots(pt_action_t *list, int count, int chunk, pt_action_kind_t last,
                        slots_t *slots)
{
    int most = 0;
    for (int m = 0; m < slots->micro_batches; m++)
        slots->of[m] = -1;
    for (int i = 0; i < count; i++) {
        pt_action_t *a = &list[i];
        if (a->chunk != chunk)
            continue;
        int *mine = &slots->of[a->micro_batch];
        if (a->kind == PT_ACTION_F) {
            const unsigned char *free =
                memchr(slots->held, 0, (size_t)slots->micro_batches);
            *mine = (int)(free - slots->held);
            slots->held[*mine] = 1;
            most = *mine >= most ? *mine + 1 : most;
        }
        *(last == PT_ACTION_B ? &a->input_slot : &a->weight_slot) = *mine;
        if (a->kind == last) {
            slots->held[*mine] = 0;
            *mine = -1;
        }
    }
    return most;
}

static void mark_fused(pt_action_t *list, int count, int chunk)
{
    pt_action_t *last = NULL;
    for (int i = 1; i < count; i++) {
        pt_action_t *a = &list[i], *before = &list[i - 1];
        if (a->chunk != chunk || a->kind != PT_ACTION_W)
            continue;
        a->fused = before->kind == PT_ACTION_B && before->chunk == chunk &&
                   before->micro_batch == a->micro_batch;
        before->fused |= a->fused;
        last = a;
    }
    last->last_weight = true;
    if (last->fused)
        last[-1].last_weight = true;
}

static bool is_ascending(const pt_schedule_t *s, int stage, int chunk,
                         pt_action_kind_t kind)
{
    int before = -1;
    bool ascending = true;
    for (int i = 0; i < s->count[stage]; i++) {
        const pt_action_t *a = &s->actions[stage][i];
        if (a->chunk != chunk || a->kind != kind)
            continue;
        ascending &= a->micro_batch > before;
        before = a->micro_batch;
    }
    return ascending;
}

static void derive(pt_schedule_t *s, int stage, slots_t *slots,
                   pt_schedule_facts_t *facts)
{
    *facts = (pt_schedule_facts_t){.fused = true};
    facts->ascending = is_ascending(s, stage, s->chunks - 1, PT_ACTION_F);
    for (int chunk = 0; chunk < s->chunks; chunk++) {
        pt_action_t *list = s->actions[stage];
        int count = s->count[stage];
        s->input_slots[chunk] = assign_slots(list, count, chunk, PT_ACTION_B, slots);
        s->weight_slots[chunk] = assign_slots(list, count, chunk, PT_ACTION_W, slots);
        mark_fused(list, count, chunk);
        facts->ascending &= is_ascending(s, stage, chunk, PT_ACTION_W);
        for (int i = 0; i < count; i++)
            facts->fused &= list[i].kind != PT_ACTION_W || list[i].fused;
    }
}

pt_status_t pt_schedule_check(pt_schedule_t *schedule, int stage,
                              pt_schedule_facts_t *facts)
{
    pt_status_t status;
    progress_t p = {.schedule = schedule};
    slots_t slots = {.micro_batches = schedule->micro_batches};
    bool moved = true;
    size_t cells =
        (size_t)schedule->stages * schedule->chunks * schedule->micro_batches;
    PT_TRY_GOTO(done, PT_NEW("schedule check", cells, &p.done));
    PT_TRY_GOTO(done, PT_NEW("schedule check", schedule->stages, &p.next));
    PT_TRY_GOTO(done, PT_NEW("schedule check", schedule->micro_batches, &slots.of));
    PT_TRY_GOTO(done, PT_NEW("schedule check", schedule->micro_batches, &slots.held));
    while (moved)
        PT_TRY_GOTO(done, advance(&p, &moved));
    PT_TRY_GOTO(done, check_complete(&p));
    derive(schedule, stage, &slots, facts);
done:
    pt_free(slots.held);
    pt_free(slots.of);
    pt_free(p.next);
    pt_free(p.done);
    return status;
}
