/* SPDX-License-Identifier: Apache-2.0 */
/* optim.h — AdamW, clipping, the learning rate and the loss scale (layer: optim). */
#ifndef PENTA_OPTIM_H
#define PENTA_OPTIM_H

#include "penta/model/arch.h"
#include "penta/parallel/units.h"

/* Learning rate of update t = 1, 2, …; a pure function. Warm-up is linear from
 * lr/warmup at t = 1 to lr at t = warmup. Over decay_steps - warmup further updates the
 * rate then falls to min_lr: cosine (Loshchilov, Hutter 2017, eq. 5), linear, constant
 * (stays lr), or wsd (lr until decay_steps - wsd_decay, then linear). */
double pt_learning_rate(const pt_config_t *config, int64_t decay_steps, int64_t t);

/* ---- loss scale of fp16 ----------------------------------------------------------
 *
 * The loss is multiplied by a power of two before the backward pass. The norm and the
 * update divide by it again, which is exact. A step whose loss or gradient is not
 * finite is skipped.
 *
 * Fixed scale: the run fails after PT_SCALE_PATIENCE skipped steps in a row.
 *
 * Dynamic scale: starts at PT_SCALE_START. It doubles, up to 2^PT_LOSS_SCALE_BITS,
 * after PT_SCALE_GROWTH_STEPS steps without overflow since the last change or overflow.
 * `hysteresis` starts at PT_SCALE_HYSTERESIS, and each overflow decreases it by one; at
 * 0 each overflow halves the scale, or, at scale 1, the run fails. Only a doubling
 * restores `hysteresis`. A single overflow thus leaves the scale unchanged; repeated
 * ones halve it each time. */
enum {
    PT_SCALE_START = 1 << 16,
    PT_SCALE_GROWTH_STEPS = 1000,
    PT_SCALE_HYSTERESIS = 2,
    PT_SCALE_PATIENCE = 20
};
typedef struct pt_loss_scale {
    bool dynamic;
    double value;
    int64_t good_steps; /* steps since the last overflow or change of the scale */
    int64_t hysteresis; /* overflows until the scale is halved (fixed: until failure) */
} pt_loss_scale_t;
/* These three functions are pure. `fixed` is the scale, or 0 for a dynamic one. */
pt_loss_scale_t pt_loss_scale_start(double fixed);
/* Continues from `saved`, unless this run does not allow its value. */
pt_loss_scale_t pt_loss_scale_resume(double fixed, pt_loss_scale_t saved);
/* Updates the scale after a step. False: the step overflowed, and no smaller scale is
 * allowed. */
bool pt_loss_scale_next(pt_loss_scale_t *scale, bool overflow);

/* ---- AdamW --------------------------------------------------------------------- */

typedef struct pt_optim pt_optim_t;

/* Creates moments (and master weights if the storage type is narrower) for the ranges
 * this rank updates, in the types of the configuration. Local; borrows table, units,
 * device and config. The caller destroys it. */
pt_status_t pt_optim_create(const pt_param_table_t *table, pt_units_t *units,
                            pt_device_t *device, const pt_config_t *config,
                            pt_optim_t **out);
void pt_optim_destroy(pt_optim_t *optim);
pt_status_t pt_optim_layout(pt_optim_t *optim, pt_arena_t *optimizer);
/* Zeroes moments and master weights (if any), padding included. */
pt_status_t pt_optim_reset(pt_optim_t *optim, pt_stream_t *stream);

typedef enum pt_state_kind {
    PT_STATE_WEIGHT,
    PT_STATE_EXP_AVG,
    PT_STATE_EXP_AVG_SQ,
    PT_STATE_KINDS
} pt_state_kind_t;
/* Flat view of a bucket's state (master weights or a moment) on this rank. It covers
 * pt_bucket_updated. */
pt_tensor_t pt_optim_state(const pt_optim_t *optim, pt_state_kind_t kind, int bucket);
/* Computes the weights from the master weights, after the state was set or loaded, and
 * tells units. */
pt_status_t pt_optim_loaded(pt_optim_t *optim, pt_stream_t *stream);

/* Adds the squares of the gradients that this rank *owns* to the accumulator on the
 * device. Each element of the global gradient is counted on exactly one rank. */
pt_status_t pt_optim_square_sum(pt_optim_t *optim, pt_tensor_t accumulator,
                                pt_stream_t *stream);
/* max/(norm + 1e-6) if that is below 1, else 1 (as torch.nn.utils.clip_grad_norm_). 1
 * if max is 0. */
double pt_clip_coefficient(double norm, double max);
/* Updates everything this rank updates, and tells units.
 *   t           number of the update: 1, 2, …
 *   grad_scale  factor of the gradients: clipping divided by the loss scale */
pt_status_t pt_optim_update(pt_optim_t *optim, int64_t t, double lr, double grad_scale,
                            pt_stream_t *stream);

#endif
