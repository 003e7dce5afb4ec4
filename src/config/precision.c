/* SPDX-License-Identifier: Apache-2.0 */
/* Rules between train.precision and the other types. */
#include "src/config/private.h"

#define CITE(slot, section, key)                                                       \
    pt_cite(config, PT_OPTION_##section##_##key, cited[slot], sizeof cited[slot])
#define FAIL(...) PT_FAIL_COMMON(PT_CONFIG, __VA_ARGS__)

/* fp64 is the reference for the other types: nothing in it is narrower. */
static pt_status_t precision_check_double(const pt_config_t *config)
{
    static const pt_option_id_t narrow[] = {PT_OPTION_train_grad_dtype,
                                            PT_OPTION_train_moments_dtype,
                                            PT_OPTION_parallel_reduce_dtype};
    char cited[2][PT_CITED];

    for (size_t i = 0; i < sizeof narrow / sizeof narrow[0]; i++)
        if (*(const int *)pt_option_view(config, pt_option(narrow[i])) != PT_NARROW_AUTO)
            return FAIL("%s: with %s everything is fp64: leave it out",
                        pt_cite(config, narrow[i], cited[0], sizeof cited[0]),
                        CITE(1, train, precision));
    return PT_OK;
}

static pt_status_t precision_check_narrow(const pt_config_t *config)
{
    bool bf16 = config->train.precision == PT_PRECISION_BF16;
    char cited[2][PT_CITED];

    if (config->train.grad_dtype == PT_NARROW_BF16 && !bf16)
        return FAIL("%s with %s: gradients of that precision are accumulated in fp32: "
                    "leave it out, or set train.precision=bf16",
                    CITE(0, train, grad_dtype), CITE(1, train, precision));
    if (config->train.moments_dtype == PT_NARROW_BF16 && !bf16)
        return FAIL("%s with %s: moments of that precision are fp32: leave it out, or "
                    "set train.precision=bf16",
                    CITE(0, train, moments_dtype), CITE(1, train, precision));
    if (config->train.grad_dtype == PT_NARROW_BF16 &&
        config->parallel.reduce_dtype == PT_NARROW_FP32)
        return FAIL("%s with %s would send twice the bytes for the same bits, since "
                    "the sum is in fp32 anyway: leave it out",
                    CITE(0, parallel, reduce_dtype), CITE(1, train, grad_dtype));
    return PT_OK;
}

pt_status_t pt_config_check_precision(const pt_config_t *config)
{
    char cited[2][PT_CITED];

    if (config->train.precision == PT_PRECISION_FP64)
        PT_TRY(precision_check_double(config));
    PT_TRY(precision_check_narrow(config));
    if (config->train.loss_scale > 0 && config->train.precision != PT_PRECISION_FP16)
        return FAIL("%s with %s: only fp16 needs a loss scale: leave it out",
                    CITE(0, train, loss_scale), CITE(1, train, precision));
    return PT_OK;
}
