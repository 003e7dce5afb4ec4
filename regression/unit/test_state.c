/* TEST timeout=60 */
/* SPDX-License-Identifier: Apache-2.0 */
/* The mapping between ranks and files: whatever the ranks, what they own covers every
 * element of every dataset once, what they hold lies apart in memory, and names and
 * shapes are those of the parameter table. */
#include "regression/tap.h"

#include "penta/base/alloc.h"
#include "penta/state/state.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_DATASETS = 512 };

typedef struct cover {
    const pt_session_t *session;
    pt_checkpoint_tensor_t list[MAX_DATASETS];
    uint8_t *owned[MAX_DATASETS]; /* times an element was seen, over all ranks */
    uint8_t *memory;              /* times a place of this rank's bucket was taken */
    int64_t room, outside, foreign;
} cover_t;

static int64_t elements_of(const pt_checkpoint_tensor_t *x)
{
    int64_t n = 1;

    for (int d = 0; d < x->ndim; d++)
        n *= x->shape[d];
    return n;
}

static pt_status_t take(void *self, const pt_stored_t *stored)
{
    cover_t *c = self;
    const pt_checkpoint_tensor_t *x = &c->list[stored->dataset];
    int64_t shape[3] = {1, 1, 1}, local = stored->slab.local;

    memcpy(shape, x->shape, (size_t)x->ndim * sizeof *shape);
    c->foreign += strcmp(x->name, stored->part->name) != 0;
    for (int64_t a = 0; a < stored->slab.count[0]; a++)
        for (int64_t b = 0; b < stored->slab.count[1]; b++)
            for (int64_t e = 0; e < stored->slab.count[2]; e++, local++) {
                int64_t at = ((stored->slab.start[0] + a) * shape[1] +
                              stored->slab.start[1] + b) *
                                 shape[2] +
                             stored->slab.start[2] + e;
                if (at >= elements_of(x) || local >= c->room) {
                    c->outside++;
                    continue;
                }
                c->memory[local]++;
                c->owned[stored->dataset][at] += stored->owner;
            }
    return PT_OK;
}

static int64_t count_other(const uint8_t *seen, int64_t n, int least, int most)
{
    int64_t other = 0;

    for (int64_t i = 0; i < n; i++)
        other += seen[i] < least || seen[i] > most;
    return other;
}

/* One rank of a dry world. Returns the places of memory taken twice. */
static int64_t visit_rank(const pt_config_t *config, int rank, int ranks, cover_t *c)
{
    pt_transport_t *transport = NULL;
    pt_machine_t machine;
    pt_session_t session;
    pt_arch_t arch;
    pt_machine_options_t world = pt_machine_options(config, true);
    pt_session_options_t options = {
        .arch = &arch,
        .micro_batches = 1,
        .units = {.in_flight = 2, .grad_dtype = PT_F32, .wire_dtype = PT_F32},
        .model = {.micro_batch = 1, .sequence = 8},
        .optimizer = config};
    int64_t twice = 0;

    world.layout = config;
    if (pt_arch_from_config(config, &arch) != PT_OK ||
        pt_transport_open_dry(rank, ranks, &transport) != PT_OK ||
        pt_machine_open(transport, &world, &machine) != PT_OK ||
        pt_session_create(&machine, &options, &session) != PT_OK) {
        tap_ok(false, "rank %d of %d: %s", rank, ranks, pt_error_last()->text);
        exit(1);
    }
    c->session = &session;
    pt_state_list(&session.table, PT_STATE_WEIGHT, PT_F32, c->list);
    int64_t datasets = pt_state_datasets(&session.table);
    for (int64_t i = 0; i < datasets && !c->owned[i]; i++)
        c->owned[i] = calloc((size_t)elements_of(&c->list[i]), 1);
    for (int b = 0; b < pt_units_buckets(session.units); b++) {
        c->room = pt_state_range(&session, b).count;
        c->memory = calloc((size_t)c->room + 1, 1);
        if (pt_state_visit(&session, b, take, c) != PT_OK)
            c->outside++;
        twice += count_other(c->memory, c->room, 0, 1);
        free(c->memory);
    }
    pt_session_destroy(&session);
    pt_machine_close(&machine);
    pt_transport_close(transport);
    return twice;
}

static void test_ranks(const pt_config_t *config, int ranks)
{
    static cover_t c;
    int64_t twice = 0, wrong = 0, all = 0;

    memset(&c, 0, sizeof c);
    for (int rank = 0; rank < ranks; rank++)
        twice += visit_rank(config, rank, ranks, &c);
    for (int i = 0; i < MAX_DATASETS && c.owned[i]; i++) {
        wrong += count_other(c.owned[i], elements_of(&c.list[i]), 1, 1);
        all += elements_of(&c.list[i]);
        free(c.owned[i]);
    }
    tap_ok(wrong == 0 && all > 0, "%d ranks: each of %lld elements has one owner",
           ranks, (long long)all);
    tap_ok(twice == 0 && c.outside == 0 && c.foreign == 0,
           "%d ranks: what they hold lies apart, under its own name", ranks);
}

int main(void)
{
    static const char settings[] = "[model]\npreset = tiny\nlayers = 2\nbias = all\n"
                                   "[data]\npath = text\n";
    static const int ranks[] = {1, 2, 3, 7, 64};
    pt_config_t *config = NULL;

    if (PT_NEW("configuration", 1, &config) != PT_OK ||
        pt_config_parse_named("test", settings, config) != PT_OK) {
        tap_ok(false, "%s", pt_error_last()->text);
        return 1;
    }
    for (int i = 0; i < (int)(sizeof ranks / sizeof *ranks); i++)
        test_ranks(config, ranks[i]);
    pt_free(config);
    return tap_done();
}
