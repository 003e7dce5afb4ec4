/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of units.h: layout in units.c, the life of a step in reduce.c. */
#ifndef PENTA_UNITS_PRIVATE_H
#define PENTA_UNITS_PRIVATE_H

#include "penta/parallel/units.h"

typedef struct place {
    int bucket;        /* -1: another stage's */
    int64_t offset;    /* elements from the start of the bucket */
    pt_tensor_t local; /* shape of this rank's shard, without data */
} place_t;

typedef struct bucket {
    bool expert;
    int units;        /* of the parameter table, merged here */
    int64_t elements; /* padded */
    pt_tensor_t weights, grads;
    /* Life of a step: */
    int unfinished; /* units whose gradient is not complete yet */
    pt_request_t *reduce, *gather;
} bucket_t;

struct pt_units {
    const pt_param_table_t *table;
    const pt_mesh_t *mesh;
    pt_device_t *device;
    pt_units_options_t options;
    int buckets;
    bucket_t *bucket;
    int *bucket_of_unit; /* [table->units] */
    place_t *place;      /* [table->count] */
    int *order; /* [begun]: buckets in the order their reductions began in this step */
    int begun;
};

pt_comm_t *pt_bucket_comm(const pt_units_t *units, const bucket_t *bucket);

#endif
