/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/parallel/schedule.h"
#include "penta/base/alloc.h"
#include "penta/base/text.h"

#include <string.h>

/* GPipe (Huang et al. 2019): all forwards, then all backwards. 1F1B (Narayanan et al. 2021, §2.2.1):
 * stage s of S runs S-1-s forwards ahead, then alternates. Backward here is B with its W at once. */
static int schedule_warm_up(pt_schedule_kind_t kind, int stage, int stages,
                            int micro_batches)
{
    int ahead = kind == PT_SCHEDULE_GPIPE ? micro_batches : stages - stage;
    return ahead < micro_batches ? ahead : micro_batches;
}

static pt_action_t schedule_action_of(pt_action_kind_t kind, int position,
                                      int micro_batch)
{
    return (pt_action_t){.kind = kind, .position = position, .micro_batch = micro_batch};
}

/* Positions [first, end) one after the other: forward up, backward down. */
static void schedule_fill_stage(pt_action_t *list, int first, int end, int ahead,
                                int micro_batches)
{
    int n = 0, forward = 0;
    for (int backward = 0; backward < micro_batches; backward++) {
        int until = ahead + backward < micro_batches ? ahead + backward : micro_batches;
        for (; forward < until; forward++)
            for (int p = first; p < end; p++)
                list[n++] = schedule_action_of(PT_ACTION_F, p, forward);
        for (int p = end - 1; p >= first; p--) {
            list[n++] = schedule_action_of(PT_ACTION_B, p, backward);
            list[n++] = schedule_action_of(PT_ACTION_W, p, backward);
        }
    }
}

pt_status_t pt_schedule_create(pt_schedule_kind_t kind, const pt_cut_t *cut,
                               int micro_batches, pt_schedule_t *out)
{
    pt_status_t status;
    int stages = cut->stages, positions = cut->positions;
    *out =
        (pt_schedule_t){.cut = cut, .stages = stages, .micro_batches = micro_batches};
    PT_REQUIRE((stages == 1 || positions == stages) && micro_batches >= 1);
    PT_TRY_GOTO(fail, PT_NEW("schedule counts", stages, &out->count));
    PT_TRY_GOTO(fail, PT_NEW("schedule lists", stages, &out->actions));
    PT_TRY_GOTO(fail, PT_NEW("schedule slots", positions, &out->input_slots));
    PT_TRY_GOTO(fail, PT_NEW("schedule slots", positions, &out->weight_slots));
    for (int s = 0; s < stages; s++) {
        int end = stages == 1 ? positions : s + 1;
        out->count[s] = 3 * micro_batches * (end - s);
        PT_TRY_GOTO(fail, PT_NEW("schedule list", out->count[s], &out->actions[s]));
        schedule_fill_stage(out->actions[s], s, end,
                            schedule_warm_up(kind, s, stages, micro_batches),
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

/* What has been done of each (position, micro-batch): a bit per kind of action. */
typedef struct progress {
    const pt_schedule_t *schedule;
    unsigned char *done; /* [positions][micro_batches] */
    int *next;           /* [stages] */
} progress_t;

static unsigned char *schedule_cell(const progress_t *p, int position, int micro_batch)
{
    return &p->done[(int64_t)position * p->schedule->micro_batches + micro_batch];
}

static bool schedule_is_known(const pt_schedule_t *s, int stage, const pt_action_t *a)
{
    return (unsigned)a->kind <= PT_ACTION_W && a->position >= 0 &&
           a->position < s->cut->positions && s->cut->stage[a->position] == stage &&
           a->micro_batch >= 0 && a->micro_batch < s->micro_batches;
}

/* F needs the position before, B needs F here and the position after, W needs B here. */
static bool schedule_is_possible(const progress_t *p, const pt_action_t *a)
{
    unsigned char here = *schedule_cell(p, a->position, a->micro_batch);
    int last = p->schedule->cut->positions - 1;
    switch (a->kind) {
    case PT_ACTION_F:
        return a->position == 0 ||
               *schedule_cell(p, a->position - 1, a->micro_batch) & 1 << PT_ACTION_F;
    case PT_ACTION_B:
        return (here & 1 << PT_ACTION_F) &&
               (a->position == last ||
                *schedule_cell(p, a->position + 1, a->micro_batch) & 1 << PT_ACTION_B);
    default: return here & 1 << PT_ACTION_B;
    }
}

static const char *schedule_action_text(const pt_action_t *a, char *buffer, size_t size)
{
    pt_text_t text = pt_text_init(buffer, size);
    pt_text_add(&text, "%c of position %d, micro-batch %d", "FBW"[a->kind],
                a -> position, a -> micro_batch);
    return buffer;
}

/* Advances every stage as far as it goes; true when something moved. */
static pt_status_t schedule_advance(progress_t *p, bool *moved)
{
    char text[96];
    *moved = false;
    for (int s = 0; s < p->schedule->cut->stages; s++) {
        for (; p->next[s] < p->schedule->count[s]; p->next[s]++) {
            const pt_action_t *a = &p->schedule->actions[s][p->next[s]];
            PT_CHECK_COMMON(schedule_is_known(p->schedule, s, a), PT_CONFIG,
                            "schedule: stage %d action %d is outside its positions, of "
                            "the %d there are, and the %d micro-batches",
                            s, p->next[s], p->schedule->cut->positions,
                            p->schedule->micro_batches);
            unsigned char *done = schedule_cell(p, a->position, a->micro_batch);
            PT_CHECK_COMMON(!(*done & 1 << a->kind), PT_CONFIG,
                            "schedule: stage %d does %s twice", s,
                            schedule_action_text(a, text, sizeof text));
            if (!schedule_is_possible(p, a))
                break;
            *done |= (unsigned char)(1 << a->kind);
            *moved = true;
        }
    }
    return PT_OK;
}

static pt_status_t schedule_check_complete(const progress_t *p)
{
    char text[96];
    const pt_schedule_t *s = p->schedule;
    for (int stage = 0; stage < s->cut->stages; stage++) {
        int chunks = pt_cut_chunks(s->cut, stage);
        PT_CHECK_COMMON(p->next[stage] == s->count[stage], PT_CONFIG,
                        "schedule: stage %d waits for ever before %s", stage,
                        schedule_action_text(&s->actions[stage][p->next[stage]], text,
                                             sizeof text));
        PT_CHECK_COMMON(
            s->count[stage] == 3 * chunks * s->micro_batches, PT_CONFIG,
            "schedule: stage %d has %d actions, not F, B and W of %d chunks and %d "
            "micro-batches",
            stage, s->count[stage], chunks, s->micro_batches);
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
static int schedule_assign_slots(pt_action_t *list, int count, int position,
                                 pt_action_kind_t last, slots_t *slots)
{
    int most = 0;
    for (int m = 0; m < slots->micro_batches; m++)
        slots->of[m] = -1;
    for (int i = 0; i < count; i++) {
        pt_action_t *a = &list[i];
        if (a->position != position)
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

static void schedule_mark_fused(pt_action_t *list, int count, int position)
{
    pt_action_t *last[] = {NULL, NULL, NULL};
    for (int i = 0; i < count; i++) {
        pt_action_t *a = &list[i], *before = i > 0 ? a - 1 : NULL;
        if (a->position != position)
            continue;
        a->last = a->fused = false;
        last[a->kind] = a;
        if (a->kind != PT_ACTION_W)
            continue;
        if (before && before->kind == PT_ACTION_B && before->position == position &&
            before->micro_batch == a->micro_batch)
            before->fused = a->fused = true;
    }
    last[PT_ACTION_F]->last = last[PT_ACTION_W]->last = true;
    if (last[PT_ACTION_W]->fused)
        last[PT_ACTION_W][-1].last = true;
}

static bool schedule_is_ascending(const pt_schedule_t *s, int stage, int position,
                                  pt_action_kind_t kind)
{
    int before = -1;
    bool ascending = true;
    for (int i = 0; i < s->count[stage]; i++) {
        const pt_action_t *a = &s->actions[stage][i];
        if (a->position != position || a->kind != kind)
            continue;
        ascending &= a->micro_batch > before;
        before = a->micro_batch;
    }
    return ascending;
}

static void schedule_derive(pt_schedule_t *s, int stage, slots_t *slots,
                            pt_schedule_facts_t *facts)
{
    pt_action_t *list = s->actions[stage];
    int count = s->count[stage];
    *facts = (pt_schedule_facts_t){.fused = true};
    facts->ascending =
        schedule_is_ascending(s, stage, s->cut->positions - 1, PT_ACTION_F);
    for (int position = 0; position < s->cut->positions; position++) {
        if (s->cut->stage[position] != stage)
            continue;
        s->input_slots[position] =
            schedule_assign_slots(list, count, position, PT_ACTION_B, slots);
        s->weight_slots[position] =
            schedule_assign_slots(list, count, position, PT_ACTION_W, slots);
        schedule_mark_fused(list, count, position);
        facts->ascending &= schedule_is_ascending(s, stage, position, PT_ACTION_W);
    }
    for (int i = 0; i < count; i++)
        facts->fused &= list[i].kind != PT_ACTION_W || list[i].fused;
}

pt_status_t pt_schedule_check(pt_schedule_t *schedule, int stage,
                              pt_schedule_facts_t *facts)
{
    pt_status_t status;
    progress_t p = {.schedule = schedule};
    slots_t slots = {.micro_batches = schedule->micro_batches};
    bool moved = true;
    size_t cells = (size_t)schedule->cut->positions * schedule->micro_batches;
    PT_TRY_GOTO(done, PT_NEW("schedule check", cells, &p.done));
    PT_TRY_GOTO(done, PT_NEW("schedule check", schedule->cut->stages, &p.next));
    PT_TRY_GOTO(done, PT_NEW("schedule check", schedule->micro_batches, &slots.of));
    PT_TRY_GOTO(done, PT_NEW("schedule check", schedule->micro_batches, &slots.held));
    while (moved)
        PT_TRY_GOTO(done, schedule_advance(&p, &moved));
    PT_TRY_GOTO(done, schedule_check_complete(&p));
    schedule_derive(schedule, stage, &slots, facts);
done:
    pt_free(slots.held);
    pt_free(slots.of);
    pt_free(p.next);
    pt_free(p.done);
    return status;
}
