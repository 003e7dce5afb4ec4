/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/optim/optim.h"

#include <math.h>

static double rate_clamp(double x)
{
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

/* Progress of the decay from update `begin` (0) to update `end` (1). */
static double rate_progress(int64_t t, int64_t begin, int64_t end)
{
    return end > begin ? rate_clamp((double)(t - begin) / (double)(end - begin))
                       : t > begin;
}

double pt_learning_rate(const pt_config_t *config, int64_t decay_steps, int64_t t)
{
    double peak = config->train.lr, low = config->train.min_lr;
    int64_t warmup = pt_config_warmup(config, decay_steps);
    int64_t wsd = config->train.wsd_decay;
    if (t <= warmup)
        return peak * (double)t / (double)warmup;
    if (wsd == 0)
        wsd = decay_steps / 10;
    switch ((pt_decay_t)config->train.decay) {
    case PT_DECAY_COSINE:
        return low + (peak - low) * 0.5 *
                         (1 + cos(M_PI * rate_progress(t, warmup, decay_steps)));
    case PT_DECAY_LINEAR:
        return peak - (peak - low) * rate_progress(t, warmup, decay_steps);
    case PT_DECAY_WSD:
        return peak - (peak - low) * rate_progress(t, decay_steps - wsd, decay_steps);
    default: return peak;
    }
}

double pt_clip_coefficient(double norm, double max)
{
    double coefficient = max / (norm + 1e-6);
    return max > 0 && coefficient < 1 ? coefficient : 1;
}
