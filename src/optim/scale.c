/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/optim/optim.h"

#include <math.h>

static double scale_largest(void)
{
    return ldexp(1, PT_LOSS_SCALE_BITS);
}

pt_loss_scale_t pt_loss_scale_start(double fixed)
{
    if (fixed > 0)
        return (pt_loss_scale_t){.value = fixed, .hysteresis = PT_SCALE_PATIENCE};
    return (pt_loss_scale_t){
        .dynamic = true, .value = PT_SCALE_START, .hysteresis = PT_SCALE_HYSTERESIS};
}

pt_loss_scale_t pt_loss_scale_resume(double fixed, pt_loss_scale_t saved)
{
    pt_loss_scale_t scale = pt_loss_scale_start(fixed);
    int fraction_exponent;
    bool usable = isfinite(saved.value) && saved.value >= 1 &&
                  saved.value <= scale_largest() &&
                  frexp(saved.value, &fraction_exponent) == 0.5;
    if (!usable || (!scale.dynamic && saved.value != fixed))
        return scale;
    scale.value = saved.value;
    scale.good_steps = saved.good_steps;
    if (saved.hysteresis < scale.hysteresis)
        scale.hysteresis = saved.hysteresis;
    return scale;
}

static void scale_pass(pt_loss_scale_t *scale)
{
    scale->good_steps++;
    if (!scale->dynamic) {
        scale->hysteresis = PT_SCALE_PATIENCE;
        return;
    }
    if (scale->good_steps < PT_SCALE_GROWTH_STEPS)
        return;
    scale->good_steps = 0;
    scale->hysteresis = PT_SCALE_HYSTERESIS;
    scale->value = fmin(2 * scale->value, scale_largest());
}

bool pt_loss_scale_next(pt_loss_scale_t *scale, bool overflow)
{
    if (!overflow) {
        scale_pass(scale);
        return true;
    }
    scale->good_steps = 0;
    if (scale->hysteresis > 0)
        scale->hysteresis--;
    if (scale->hysteresis > 0)
        return true;
    if (!scale->dynamic || scale->value <= 1)
        return false;
    scale->value /= 2;
    return true;
}
