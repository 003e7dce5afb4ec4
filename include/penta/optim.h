/* optim.h — AdamW, clipping and the learning rate (layer: optim). */
#ifndef PENTA_OPTIM_H
#define PENTA_OPTIM_H

#include "penta/arch.h"
#include "penta/units.h"

/* Learning rate of update t = 1, 2, …; pure. Warm-up is linear from lr/warmup at t = 1 to lr at t =
 * warmup; then over decay_steps - warmup further updates to min_lr: cosine (Loshchilov, Hutter
 * 2017, eq. 5), linear, constant (stays lr), wsd (lr until decay_steps - wsd_decay, then linear). */
double pt_learning_rate(const pt_config_t *config, int64_t decay_steps, int64_t t);

typedef struct pt_optim pt_optim_t;

/* Moments (and master weights where the storage type is narrower) of the ranges this rank updates.
 * Local; borrows. Caller destroys. */
pt_status_t pt_optim_create(const pt_param_table_t *table, pt_units_t *units,
                            pt_device_t *device, const pt_config_t *config,
                            pt_optim_t **out);
void pt_optim_destroy(pt_optim_t *optim);
pt_status_t pt_optim_layout(pt_optim_t *optim, pt_arena_t *optimizer);
/* Zero moments; master weights from the compute weights. */
pt_status_t pt_optim_reset(pt_optim_t *optim, pt_stream_t *stream);

typedef enum pt_state_kind {
    PT_STATE_WEIGHT,
    PT_STATE_EXP_AVG,
    PT_STATE_EXP_AVG_SQ,
    PT_STATE_KINDS
} pt_state_kind_t;
/* Flat view of a bucket's state (master weight or moment) on this rank: covers pt_bucket_updated. */
pt_tensor_t pt_optim_state(const pt_optim_t *optim, pt_state_kind_t kind, int bucket);
/* After states were loaded: compute weights from the masters. */
pt_status_t pt_optim_loaded(pt_optim_t *optim, pt_stream_t *stream);

/* Adds the squares of this rank's *owned* gradient shard of every bucket to the device accumulator (each
 * element of the global gradient is counted on exactly one rank). */
pt_status_t pt_optim_square_sum(pt_optim_t *optim, pt_tensor_t accumulator,
                                pt_stream_t *stream);
/* max/(norm + 1e-6) where that is below 1, else 1 (as torch.nn.utils.clip_grad_norm_); max 0: 1. */
double pt_clip_coefficient(double norm, double max);
/* One update of everything this rank updates; tells units. t: 1, 2, … */
pt_status_t pt_optim_update(pt_optim_t *optim, int64_t t, double lr, double grad_scale,
                            pt_stream_t *stream);

#endif
