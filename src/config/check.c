/* SPDX-License-Identifier: Apache-2.0 */
/* Rules between options. Each message gives the values, their origin, and the nearest
 * valid value. */
#include "src/config/private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ID(section, key) PT_OPTION_##section##_##key
/* CITE(0, train, steps) needs `char cited[N][PT_CITED]` in scope. */
#define CITE(slot, section, key)                                                       \
    pt_cite(config, ID(section, key), cited[slot], sizeof cited[slot])
#define FAIL(...) PT_FAIL_COMMON(PT_CONFIG, __VA_ARGS__)

const char *pt_cite(const pt_config_t *config, pt_option_id_t id, char *buffer,
                    size_t size)
{
    const pt_option_t *row = pt_option(id);
    char value[PT_CITED], shown[PT_SHOWN];

    if (row->type == PT_TYPE_TEXT)
        pt_show(pt_option_view(config, row), shown, sizeof shown);
    else
        pt_show(pt_config_value(config, id, value, sizeof value), shown, sizeof shown);
    snprintf(buffer, size, "%s.%s=%s (%s)", row->section, row->key, shown,
             config->origin[id]);
    return buffer;
}

/* ---- Model ---- */

static int64_t check_nearest_divisor(int64_t n, int64_t wanted)
{
    int64_t best = 1;

    for (int64_t d = 1; d <= n; d++)
        if (n % d == 0 && llabs(d - wanted) <= llabs(best - wanted))
            best = d;
    return best;
}

static pt_status_t check_heads(const pt_config_t *config)
{
    int64_t heads = config->model.heads, kv = config->model.kv_heads;
    int64_t width = config->model.head_dim;
    double rotating = (double)width * config->model.rotary_fraction;
    double columns, fraction;
    char cited[3][PT_CITED];

    if (kv > heads || heads % kv != 0)
        return FAIL("%s must divide %s: nearest is %lld", CITE(0, model, kv_heads),
                    CITE(1, model, heads), (long long)check_nearest_divisor(heads, kv));
    if (config->model.positions != PT_CHOOSE_ROTARY)
        return PT_OK;
    if (width % 2 != 0)
        return FAIL("%s must be even for rotary positions: nearest is %lld",
                    CITE(0, model, head_dim), (long long)(width + 1));
    /* The product with the width must not be an ulp below `columns` either, so that
     * truncation and rounding give the same number. */
    columns = fmax(2 * round(rotating / 2), 2);
    fraction = columns / (double)width;
    if (fraction * (double)width < columns)
        fraction = nextafter(fraction, 2);
    if (rotating < columns || rotating > columns + 1e-3)
        return FAIL(
            "%s of %s must be an even number of columns, at least 2: nearest is %.17g",
            CITE(0, model, rotary_fraction), CITE(1, model, head_dim), fraction);
    if (config->model.rotary_base <= 1)
        return FAIL("%s must be above 1; 10000 is common", CITE(0, model, rotary_base));
    return PT_OK;
}

static pt_status_t check_model(const pt_config_t *config)
{
    char cited[2][PT_CITED];

    PT_TRY(check_heads(config));
    if (config->train.sequence > config->model.max_positions)
        return FAIL("%s is longer than %s: lower the first or raise the second%s",
                    CITE(0, train, sequence), CITE(1, model, max_positions),
                    config->model.positions == PT_CHOOSE_ROTARY
                        ? " (which costs nothing)"
                        : "");
    if (config->data.path[0] && config->data.format == PT_FORMAT_TEXT &&
        config->model.vocab < 256)
        return FAIL("%s is too small for %s: one token per byte needs 256",
                    CITE(0, model, vocab), CITE(1, data, format));
    return PT_OK;
}

/* ---- Sizes ---- */

static pt_status_t check_sizes(const pt_config_t *config)
{
    int64_t rows = config->train.micro_batch * config->train.sequence, tokens, all,
            width, values;
    char cited[3][PT_CITED];

    if (rows > INT32_MAX)
        return FAIL("%s times %s makes %lld rows; at most %d",
                    CITE(0, train, micro_batch), CITE(1, train, sequence),
                    (long long)rows, INT32_MAX);
    if (__builtin_mul_overflow(config->train.global_batch, config->train.sequence,
                               &tokens) ||
        __builtin_mul_overflow(tokens, config->train.steps, &all))
        return FAIL("%s times %s times %s: more tokens than 64 bits can count",
                    CITE(0, train, global_batch), CITE(1, train, sequence),
                    CITE(2, train, steps));
    width = config->model.heads * config->model.head_dim;
    if (width < 2 * config->model.ffn)
        width = 2 * config->model.ffn;
    if (width < config->model.vocab)
        width = config->model.vocab;
    /* Activations are counted as int64 bytes; a layer has fewer than 64 such rows of 8
     * bytes. */
    if (__builtin_mul_overflow(rows, width, &values) ||
        __builtin_mul_overflow(values, 64 * 8 * config->model.layers, &values))
        return FAIL("%s times %s: activations of more bytes than 64 bits can count",
                    CITE(0, train, micro_batch), CITE(1, train, sequence));
    return PT_OK;
}

/* ---- Layout ---- */

static pt_status_t check_parallel(const pt_config_t *config)
{
    static const pt_option_id_t axes[] = {ID(parallel, tensor), ID(parallel, context),
                                          ID(parallel, pipeline), ID(parallel, expert),
                                          ID(parallel, expert_tensor)};
    char cited[2][PT_CITED];

    for (size_t i = 0; i < sizeof axes / sizeof axes[0]; i++) {
        const pt_option_t *row = pt_option(axes[i]);

        if (*(const int64_t *)pt_option_view(config, row) != 1)
            return FAIL("%s: this version has no %s parallelism: set it to 1; more "
                        "ranks serve as "
                        "replicas (parallel.data)",
                        pt_cite(config, axes[i], cited[0], sizeof cited[0]), row->key);
    }
    if (config->run.device == PT_DEVICE_CUDA)
        return FAIL("%s: this version computes only on cpu", CITE(0, run, device));
    if (config->parallel.recompute > config->model.layers)
        return FAIL("%s: K must be 1 to the number of layers, %s",
                    CITE(0, parallel, recompute), CITE(1, model, layers));
    return PT_OK;
}

/* ---- Training ---- */

static pt_status_t check_schedule(const pt_config_t *config)
{
    int64_t all =
        config->train.decay_steps ? config->train.decay_steps : config->train.steps;
    char cited[3][PT_CITED];

    if (config->train.min_lr > config->train.lr)
        return FAIL("%s is above %s", CITE(0, train, min_lr), CITE(1, train, lr));
    if (config->train.warmup > all)
        return FAIL("%s is longer than the schedule, %s", CITE(0, train, warmup),
                    config->train.decay_steps ? CITE(1, train, decay_steps)
                                              : CITE(1, train, steps));
    if (config->train.decay == PT_DECAY_WSD && config->train.wsd_decay > 0 &&
        config->train.warmup == all)
        return FAIL("%s leaves no step for %s in a schedule of %lld steps: lower it",
                    CITE(0, train, warmup), CITE(1, train, wsd_decay), (long long)all);
    if (config->train.decay == PT_DECAY_WSD &&
        config->train.wsd_decay > all - config->train.warmup)
        return FAIL("%s and %s are longer than the schedule of %lld steps: nearest is "
                    "train.wsd_decay=%lld",
                    CITE(0, train, wsd_decay), CITE(1, train, warmup), (long long)all,
                    (long long)(all - config->train.warmup));
    return PT_OK;
}

/* AdamW needs beta1^2 < sqrt(beta2) (Kingma, Ba 2015, theorem 4.1). */
static pt_status_t check_betas(const pt_config_t *config)
{
    double beta1 = config->train.beta1, beta2 = config->train.beta2;
    char cited[2][PT_CITED];

    if (beta1 > 0 && beta1 * beta1 >= sqrt(beta2))
        return FAIL("%s is too large for %s: AdamW needs beta1^2 < sqrt(beta2)%s",
                    CITE(0, train, beta1), CITE(1, train, beta2),
                    beta2 * beta2 < sqrt(beta1) ? "; are they swapped?" : "");
    return PT_OK;
}

static pt_status_t check_weights(const pt_config_t *config)
{
    if (!config->data.weights[0] || !config->data.path[0])
        return PT_OK;
    return pt_config_weights(config, pt_config_items(config, ID(data, path)), NULL);
}

static pt_status_t check_data(const pt_config_t *config)
{
    char cited[2][PT_CITED];

    if (config->data.split.train == 0)
        return FAIL("%s leaves nothing to train on", CITE(0, data, split));
    if (config->run.eval_every > 0 && config->data.split.validation == 0 &&
        !config->data.validation[0])
        return FAIL("%s needs something to validate on, but %s leaves nothing and "
                    "data.validation is empty",
                    CITE(0, run, eval_every), CITE(1, data, split));
    PT_TRY(pt_config_check_lists(config));
    if (config->data.separator[0] && config->data.format != PT_FORMAT_TEXT)
        return FAIL("%s applies only to text, not to %s: leave it empty",
                    CITE(0, data, separator), CITE(1, data, format));
    return check_weights(config);
}

pt_start_t pt_config_start(const pt_config_t *config)
{
    const char *resume = config->checkpoint.resume;

    return strcmp(resume, "auto") == 0   ? PT_START_NEWEST
           : strcmp(resume, "none") == 0 ? PT_START_AFRESH
                                         : PT_START_FILE;
}

static pt_status_t check_run(const pt_config_t *config)
{
    const char *resume = config->checkpoint.resume;
    char cited[1][PT_CITED], nearest[32];

    if (!resume[0])
        return FAIL("%s: auto, none or the name of a checkpoint",
                    CITE(0, checkpoint, resume));
    if (pt_config_start(config) == PT_START_FILE && !strpbrk(resume, "/.") &&
        pt_nearest_word("auto|none", resume, nearest, sizeof nearest))
        return FAIL("%s: maybe: %s? (a file of that name: ./%.40s)",
                    CITE(0, checkpoint, resume), nearest, resume);
    if (!config->run.dir[0])
        return FAIL("%s: a run needs a directory; . is the working directory",
                    CITE(0, run, dir));
    return PT_OK;
}

static pt_status_t check_sample(const pt_config_t *config)
{
    char cited[2][PT_CITED];

    if (config->sample.prompt[0] && config->sample.prompt_file[0])
        return FAIL("%s and %s: give one of them", CITE(0, sample, prompt),
                    CITE(1, sample, prompt_file));
    return PT_OK;
}

pt_status_t pt_config_check(const pt_config_t *config)
{
    PT_TRY(check_model(config));
    PT_TRY(check_sizes(config));
    PT_TRY(check_parallel(config));
    PT_TRY(check_schedule(config));
    PT_TRY(check_betas(config));
    PT_TRY(pt_config_check_precision(config));
    PT_TRY(check_data(config));
    PT_TRY(check_run(config));
    return check_sample(config);
}

/* ---- Ranks ---- */

static pt_status_t check_axes(const pt_config_t *config, int ranks)
{
    int64_t fixed = 1, replicas = config->parallel.data, nearest;
    char cited[1][PT_CITED];

    if (__builtin_mul_overflow(config->parallel.tensor, config->parallel.context,
                               &fixed) ||
        __builtin_mul_overflow(fixed, config->parallel.pipeline, &fixed) ||
        fixed > ranks || ranks % fixed != 0) {
        nearest = fixed > 0 && fixed <= ranks ? ranks / fixed * fixed : fixed;
        return FAIL("parallel.tensor*context*pipeline=%lld must divide the number of "
                    "ranks, %d: "
                    "nearest number of ranks is %lld",
                    (long long)fixed, ranks, (long long)nearest);
    }
    if (replicas != 0 && replicas != ranks / fixed)
        return FAIL("%s does not fit %d ranks: leave it out or set it to %lld, or "
                    "start %lld ranks",
                    CITE(0, parallel, data), ranks, (long long)(ranks / fixed),
                    (long long)(replicas * fixed));
    return PT_OK;
}

pt_status_t pt_config_check_layout(const pt_config_t *config, int ranks)
{
    char cited[1][PT_CITED];

    if (ranks < 1)
        return FAIL("%d ranks: at least 1 is needed", ranks);
    if (config->parallel.ranks != 0 && config->parallel.ranks != ranks)
        return FAIL("%s, but there are %d ranks: leave it out, it is for penta plan",
                    CITE(0, parallel, ranks), ranks);
    return check_axes(config, ranks);
}
