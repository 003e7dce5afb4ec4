/* TEST timeout=60 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "regression/tap.h"

#include "penta/parallel/schedule.h"

#include <string.h>

/* Peaks after Narayanan et al. 2021: 1F1B holds stages - stage micro-batches, GPipe all
 * (anchor P08: 32 and 4 at p 4, m 32, first stage). */
static void test_peak(pt_schedule_kind_t kind, int stages, int micro_batches)
{
    for (int stage = 0; stage < stages; stage++) {
        pt_schedule_t s;
        pt_schedule_facts_t facts;
        pt_cut_t cut;
        int expected = kind == PT_SCHEDULE_GPIPE ? micro_batches : stages - stage;
        if (expected > micro_batches)
            expected = micro_batches;
        int ok = pt_cut_create(stages, stages, 1, &cut) == PT_OK &&
                 pt_schedule_create(kind, &cut, micro_batches, &s) == PT_OK &&
                 pt_schedule_check(&s, stage, &facts) == PT_OK;
        tap_ok(ok && s.input_slots[stage] == expected &&
                   s.weight_slots[stage] == expected,
               "%s p %d m %d stage %d holds %d micro-batches",
               kind == PT_SCHEDULE_GPIPE ? "gpipe" : "1f1b", stages, micro_batches,
               stage, expected);
        tap_ok(ok && facts.fused && facts.ascending,
               "every W follows its B, in ascending order");
        pt_schedule_destroy(&s);
        pt_cut_destroy(&cut);
    }
}

/* Slots: never two holders at once. */
static void test_slots(int micro_batches)
{
    pt_schedule_t s;
    pt_schedule_facts_t facts;
    int holder[64], bad = 0;
    memset(holder, -1, sizeof holder);
    pt_cut_t cut;
    pt_cut_create(4, 4, 1, &cut);
    pt_schedule_create(PT_SCHEDULE_1F1B, &cut, micro_batches, &s);
    pt_schedule_check(&s, 1, &facts);
    for (int i = 0; i < s.count[1]; i++) {
        const pt_action_t *a = &s.actions[1][i];
        if (a->kind == PT_ACTION_F) {
            bad += holder[a->weight_slot] != -1;
            holder[a->weight_slot] = a->micro_batch;
        }
        bad += holder[a->weight_slot] != a->micro_batch;
        if (a->kind == PT_ACTION_W)
            holder[a->weight_slot] = -1;
        bad += a->last != (a->micro_batch == micro_batches - 1);
    }
    tap_ok(bad == 0, "slots of %d micro-batches have one holder at a time",
           micro_batches);
    pt_schedule_destroy(&s);
    pt_cut_destroy(&cut);
}

/* One stage of three chunks: each has slots of its own; an action of another stage's
 * position is refused. */
static void test_chunks(void)
{
    pt_schedule_t s;
    pt_schedule_facts_t facts;
    pt_cut_t cut;
    pt_cut_create(7, 1, 3, &cut);
    tap_ok(cut.first_layer[1] == 3 && cut.first_layer[2] == 5 && cut.first_layer[3] == 7,
           "seven layers in three chunks: 3, 2, 2");
    tap_ok(pt_cut_position_of(&cut, 2) == 0 && pt_cut_position_of(&cut, 3) == 1 &&
               pt_cut_position_of(&cut, 6) == 2,
           "each layer knows its position");
    pt_schedule_create(PT_SCHEDULE_GPIPE, &cut, 4, &s);
    tap_ok(pt_schedule_check(&s, 0, &facts) == PT_OK && facts.fused && facts.ascending,
           "forward up, backward down");
    tap_ok(s.input_slots[0] == 4 && s.input_slots[1] == 4 && s.input_slots[2] == 4,
           "each chunk holds all micro-batches");
    pt_schedule_destroy(&s);
    pt_cut_destroy(&cut);
    pt_cut_create(4, 2, 2, &cut);
    tap_ok(cut.stage[0] == 0 && cut.stage[1] == 1 && cut.stage[2] == 0 &&
               pt_cut_chunk(&cut, 2) == 1 && pt_cut_chunks(&cut, 1) == 2,
           "two chunks on each of two stages, in turn");
    pt_cut_destroy(&cut);
    tap_ok(pt_cut_create(3, 2, 2, &cut) == PT_CONFIG,
           "three layers are no four positions");
    pt_error_clear();
}

static int is_refused(pt_schedule_t *s, const char *part)
{
    pt_schedule_facts_t facts;
    pt_status_t status = pt_schedule_check(s, 0, &facts);
    int ok = status == PT_CONFIG && strstr(pt_error_last()->text, part) != NULL;
    if (!ok)
        printf("# %s\n", pt_error_last()->text);
    pt_error_clear();
    return ok;
}

static void test_refusals(void)
{
    pt_schedule_t s;
    pt_schedule_facts_t facts;
    pt_cut_t cut;
    pt_cut_create(2, 2, 1, &cut);
    pt_schedule_create(PT_SCHEDULE_1F1B, &cut, 3, &s);
    pt_action_t *list = s.actions[0], keep;
    keep = list[0], list[0] = list[1],
    list[1] = keep; /* F1 before F0 here, F0 first there: fine */
    tap_ok(pt_schedule_check(&s, 0, &facts) == PT_OK, "order of forwards is free");
    keep = list[0], list[0] = list[2], list[2] = keep;
    tap_ok(is_refused(&s, "stage 0 waits for ever before B"), "B before its F");
    keep = list[0], list[0] = list[2], list[2] = keep;
    list[1] = list[0];
    tap_ok(is_refused(&s, "stage 0 does F of position 0, micro-batch 1 twice"),
           "an action twice");
    list[1].micro_batch = 7;
    tap_ok(is_refused(&s, "outside"), "an unknown micro-batch");
    list[1].micro_batch = 0;
    s.count[0]--;
    tap_ok(is_refused(&s, "has 8 actions"), "a missing W");
    pt_schedule_destroy(&s);
    pt_cut_destroy(&cut);
}

/* Delayed W (as in zero-bubble schedules): not fused, more weight slots than input
 * slots. */
static void test_split(void)
{
    static const char kinds[] = "FBFBFBWWW";
    static const int micro[] = {0, 0, 1, 1, 2, 2, 0, 1, 2};
    pt_schedule_t s;
    pt_schedule_facts_t facts;
    pt_cut_t cut;
    pt_cut_create(1, 1, 1, &cut);
    pt_schedule_create(PT_SCHEDULE_1F1B, &cut, 3, &s);
    for (int i = 0; i < 9; i++)
        s.actions[0][i] =
            (pt_action_t){.kind = (pt_action_kind_t)(strchr("FBW", kinds[i]) - "FBW"),
                          .micro_batch = micro[i]};
    tap_ok(pt_schedule_check(&s, 0, &facts) == PT_OK, "delayed W is a schedule");
    tap_ok(s.input_slots[0] == 1 && s.weight_slots[0] == 3,
           "one input slot, three weight slots");
    tap_ok(!facts.fused && facts.ascending, "not fused, ascending");
    pt_schedule_destroy(&s);
    pt_cut_destroy(&cut);
}

int main(void)
{
    for (int stages = 1; stages <= 4; stages++)
        for (int m = 1; m <= 8; m += 3)
            test_peak(PT_SCHEDULE_1F1B, stages, m);
    test_peak(PT_SCHEDULE_GPIPE, 4, 32);
    test_peak(PT_SCHEDULE_1F1B, 4, 32);
    test_slots(1);
    test_slots(9);
    test_split();
    test_chunks();
    test_refusals();
    return tap_done();
}
