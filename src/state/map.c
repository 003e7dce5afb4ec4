/* SPDX-License-Identifier: Apache-2.0 */
/* Which elements of this rank are which elements of a file. */
#include "penta/base/alloc.h"
#include "penta/base/rng.h"
#include "src/state/private.h"

#include <stdio.h>
#include <string.h>

static const char *const group_of[PT_STATE_KINDS] = {
    [PT_STATE_WEIGHT] = PT_CHECKPOINT_WEIGHTS,
    [PT_STATE_EXP_AVG] = "optimizer/exp_avg",
    [PT_STATE_EXP_AVG_SQ] = "optimizer/exp_avg_sq",
};

int64_t pt_state_datasets(const pt_param_table_t *table)
{
    int64_t parts = 0;

    for (int p = 0; p < table->count; p++)
        parts += table->params[p].parts;
    return parts;
}

static void map_describe(const pt_part_t *part, pt_state_kind_t kind, pt_dtype_t dtype,
                         pt_checkpoint_tensor_t *x)
{
    char path[sizeof x->group + sizeof x->name];

    x->dtype = dtype;
    x->ndim = part->ndim;
    memcpy(x->shape, part->shape, sizeof x->shape);
    snprintf(x->group, sizeof x->group, "%s", group_of[kind]);
    snprintf(x->name, sizeof x->name, "%s", part->name);
    snprintf(path, sizeof path, "%s/%s", x->group, x->name);
    x->id = kind == PT_STATE_WEIGHT ? part->id : pt_name_id(path);
}

void pt_state_list(const pt_param_table_t *table, pt_state_kind_t kind,
                   pt_dtype_t dtype, pt_checkpoint_tensor_t *out)
{
    for (int p = 0; p < table->count; p++)
        for (int i = 0; i < table->params[p].parts; i++)
            map_describe(&table->params[p].part[i], kind, dtype, out++);
}

pt_bucket_range_t pt_state_range(const pt_session_t *s, int bucket)
{
    if (s->optim)
        return pt_bucket_shard(s->units, bucket);
    return (pt_bucket_range_t){0, pt_bucket_elements(s->units, bucket)};
}

static pt_status_t map_visit_part(const pt_session_t *s, int param, int part,
                                  pt_stored_t stored, pt_stored_fn visit, void *self)
{
    pt_hyperslab_t slabs[PT_RANGE_HYPERSLABS];
    pt_bucket_range_t range = pt_state_range(s, pt_units_bucket_of(s->units, param));
    int count = pt_units_hyperslabs(s->units, param, part, range, slabs);

    stored.part = &s->table.params[param].part[part];
    stored.owner = pt_units_is_owner(s->units, param, part);
    for (int i = 0; i < count; i++) {
        stored.slab = slabs[i];
        PT_TRY(visit(self, &stored));
        pt_session_tick(s);
    }
    return PT_OK;
}

pt_status_t pt_state_visit(const pt_session_t *s, int bucket, pt_stored_fn visit,
                           void *self)
{
    pt_stored_t stored = {.dataset = 0};

    for (int p = 0; p < s->table.count; p++) {
        bool here = pt_units_bucket_of(s->units, p) == bucket;
        for (int part = 0; part < s->table.params[p].parts; part++, stored.dataset++)
            if (here)
                PT_TRY(map_visit_part(s, p, part, stored, visit, self));
    }
    return PT_OK;
}

pt_status_t pt_state_match(const pt_param_table_t *table,
                           const pt_checkpoint_reader_t *reader, pt_state_kind_t kind,
                           int *index, pt_state_mismatch_t *first)
{
    int64_t count = pt_state_datasets(table);
    pt_checkpoint_tensor_t *list;

    first->found = NULL;
    first->dataset = -1;
    PT_TRY(PT_NEW("datasets", (size_t)count, &list));
    pt_state_list(table, kind, PT_F32, list);
    for (int64_t i = 0; i < count && first->dataset < 0; i++) {
        int at = pt_checkpoint_find_tensor(reader, list[i].group, list[i].name);
        const pt_checkpoint_tensor_t *x =
            at >= 0 ? pt_checkpoint_tensor(reader, at) : NULL;
        bool same =
            x && x->ndim == list[i].ndim &&
            memcmp(x->shape, list[i].shape, (size_t)x->ndim * sizeof *x->shape) == 0;
        if (index)
            index[i] = at;
        if (!same)
            *first = (pt_state_mismatch_t){i, list[i], x};
    }
    pt_free(list);
    return PT_OK;
}
