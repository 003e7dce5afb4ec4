/* SPDX-License-Identifier: Apache-2.0 */
/* optim.h — AdamW, clipping, the learning rate and the loss scale (layer: optim). */
#ifndef PENTA_OPTIM_H
#define PENTA_OPTIM_H

#include "penta/model/arch.h"
#include "penta/parallel/units.h"

/* Learning rate of update t = 1, 2, …; pure. Warm-up is linear from lr/warmup at t = 1 to lr at t =
 * warmup; then over decay_steps - warmup further updates to min_lr: cosine (Loshchilov, Hutter
 * 2017, eq. 5), linear, constant (stays lr), wsd (lr until decay_steps - wsd_decay, then linear). */
double pt_learning_rate(const pt_config_t *config, int64_t decay_steps, int64_t t);

/* ---- loss scale of fp16 ----------------------------------------------------------------------
 *
 * The loss is multiplied by a power of two before the backward pass, and norm and update divide it out,
 * which is exact. A step whose loss or gradient is not finite is skipped. Fixed: after PT_SCALE_PATIENCE
 * skipped steps in a row there is no hope. Dynamic: starts at PT_SCALE_START; doubled after
 * PT_SCALE_GROWTH_STEPS steps without overflow since it last changed or a step overflowed, up to
 * 2^PT_LOSS_SCALE_BITS; an overflow halves it once `hysteresis` has come to 0, which starts at
 * PT_SCALE_HYSTERESIS, loses one at each overflow and is restored only when the scale is doubled. So
 * single overflows are forgiven, repeated ones are answered one by one. There is nothing below 1. */
enum {
    PT_SCALE_START = 1 << 16,
    PT_SCALE_GROWTH_STEPS = 1000,
    PT_SCALE_HYSTERESIS = 2,
    PT_SCALE_PATIENCE = 20
};
typedef struct pt_loss_scale {
    bool dynamic;
    double value;
    int64_t good_steps; /* without overflow since the last one or the last change */
    int64_t hysteresis; /* overflows until the scale is halved (fixed: until there is no hope) */
} pt_loss_scale_t;
/* Pure, all three. fixed: the scale, 0 for dynamic. */
pt_loss_scale_t pt_loss_scale_start(double fixed);
/* Goes on from `saved`, as far as its value is one this run may have. */
pt_loss_scale_t pt_loss_scale_resume(double fixed, pt_loss_scale_t saved);
/* After a step. False: it overflowed, and there is no other scale to try. */
bool pt_loss_scale_next(pt_loss_scale_t *scale, bool overflow);

/* ---- AdamW ------------------------------------------------------------------------------------ */

typedef struct pt_optim pt_optim_t;

/* Moments (and master weights where the storage type is narrower) of the ranges this rank updates, in
 * the types the configuration says. Local; borrows. Caller destroys. */
pt_status_t pt_optim_create(const pt_param_table_t *table, pt_units_t *units,
                            pt_device_t *device, const pt_config_t *config,
                            pt_optim_t **out);
void pt_optim_destroy(pt_optim_t *optim);
pt_status_t pt_optim_layout(pt_optim_t *optim, pt_arena_t *optimizer);
/* Zeroes moments, and master weights where there are any, padding included. */
pt_status_t pt_optim_reset(pt_optim_t *optim, pt_stream_t *stream);

typedef enum pt_state_kind {
    PT_STATE_WEIGHT,
    PT_STATE_EXP_AVG,
    PT_STATE_EXP_AVG_SQ,
    PT_STATE_KINDS
} pt_state_kind_t;
/* Flat view of a bucket's state (master weight or moment) on this rank: covers pt_bucket_updated. */
pt_tensor_t pt_optim_state(const pt_optim_t *optim, pt_state_kind_t kind, int bucket);
/* After states were set or loaded: compute weights from the masters, and tells units. */
pt_status_t pt_optim_loaded(pt_optim_t *optim, pt_stream_t *stream);

/* Adds the squares of this rank's *owned* gradient shard of every bucket to the device accumulator (each
 * element of the global gradient is counted on exactly one rank). */
pt_status_t pt_optim_square_sum(pt_optim_t *optim, pt_tensor_t accumulator,
                                pt_stream_t *stream);
/* max/(norm + 1e-6) where that is below 1, else 1 (as torch.nn.utils.clip_grad_norm_); max 0: 1. */
double pt_clip_coefficient(double norm, double max);
/* One update of everything this rank updates, by grad_scale times the gradients (clipping, and the loss
 * scale taken out); tells units. t: 1, 2, … */
pt_status_t pt_optim_update(pt_optim_t *optim, int64_t t, double lr, double grad_scale,
                            pt_stream_t *stream);

#endif
