/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/private.h"

pt_status_t pt_train_visit_shard(pt_trainer_t *t, int bucket, pt_visit_box_fn visit,
                                 void *self)
{
    pt_bucket_range_t shard = pt_bucket_shard(t->session.units, bucket);
    int64_t ordinal = 0;
    for (int p = 0; p < t->session.table.count; p++) {
        const pt_param_t *param = &t->session.table.params[p];
        bool here = pt_units_bucket_of(t->session.units, p) == bucket;
        for (int part = 0; part < param->parts; part++, ordinal++) {
            pt_hyperslab_t slabs[PT_RANGE_HYPERSLABS];
            bool owns = here && pt_units_is_owner(t->session.units, p, part);
            int count =
                owns ? pt_units_hyperslabs(t->session.units, p, part, shard, slabs) : 0;
            for (int s = 0; s < count; s++) {
                pt_stored_box_t box = {p, part, ordinal, slabs[s]};
                PT_TRY(visit(t, &box, self));
                pt_train_tick(t);
            }
        }
    }
    return PT_OK;
}
