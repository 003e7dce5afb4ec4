/* SPDX-License-Identifier: Apache-2.0 */
#include "src/cmd/sample.h"
#include "penta/base/alloc.h"
#include "penta/io/checkpoint.h"
#include "penta/base/log.h"
#include "src/cmd/private.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- checkpoint ------------------------------------------------------------------ */

/* Arguments of the functions that open a checkpoint, and the generator they create. */
typedef struct opening {
    const pt_config_t *config;
    pt_transport_t *transport;
    int64_t texts;
    pt_generator_t *generator;
} opening_t;

static pt_status_t sample_open_file(const char *path, void *self)
{
    opening_t *opening = self;

    return pt_generator_create(opening->config, opening->transport, path,
                               opening->texts, &opening->generator);
}

static pt_status_t sample_open_newest(opening_t *opening)
{
    char directory[PT_CONFIG_TEXT + 16];
    const char *dir = opening->config->run.dir;
    pt_checkpoint_entry_t found;

    (void)pt_checkpoint_directory(dir, directory, sizeof directory);
    PT_TRY(pt_checkpoint_newest(
        NULL, directory, "name another run.dir, or a file by checkpoint.resume=FILE",
        sample_open_file, opening, &found));
    PT_CHECK_COMMON(found.path[0], PT_IO,
                    "%s: no checkpoint here: train first (penta train run.dir=%s), "
                    "or name another run.dir, or a file by checkpoint.resume=FILE",
                    directory, dir);
    return PT_OK;
}

static pt_status_t sample_open_generator(opening_t *opening)
{
    pt_start_t start = pt_config_start(opening->config);

    PT_CHECK_COMMON(
        start != PT_START_AFRESH, PT_CONFIG,
        "checkpoint.resume=none: sampling needs a checkpoint: auto or FILE");
    return start == PT_START_NEWEST
               ? sample_open_newest(opening)
               : sample_open_file(opening->config->checkpoint.resume, opening);
}

/* ---- command --------------------------------------------------------------------- */

static pt_status_t sample(const pt_config_t *config, pt_transport_t *transport,
                          bool json)
{
    pt_prompts_t prompts;
    opening_t opening = {.config = config, .transport = transport};
    pt_output_t output = {.json = json};
    pt_status_t status;

    PT_TRY(pt_prompts_read(config, &prompts));
    opening.texts = prompts.count * config->sample.count;
    output.several = opening.texts > 1;
    if (opening.texts > config->sample.batch)
        opening.texts = config->sample.batch;
    PT_TRY_GOTO(done, sample_open_generator(&opening));
    pt_log_root(PT_LOG_INFO, "%s, step %" PRId64 ", loss %.4f",
                pt_generator_path(opening.generator),
                pt_generator_step(opening.generator),
                pt_generator_loss(opening.generator));
    status = pt_texts_make(config, &prompts, opening.generator, &output);
    if (status == PT_STOPPED) /* the reader has closed the pipe */
        status = PT_OK;
done:
    pt_generator_destroy(opening.generator);
    pt_prompts_free(&prompts);
    return status;
}

static pt_status_t sample_run(int argc, char **argv, pt_transport_t *transport)
{
    pt_config_t *config = NULL;
    bool json = pt_cmd_take_flag(&argc, argv, "--json");
    pt_status_t status;

    PT_TRY(PT_NEW("configuration", 1, &config));
    PT_TRY_GOTO(done, pt_cmd_config(transport, argc, argv, config));
    pt_log_set_level((pt_log_level_t)config->run.log_level);
    PT_TRY_GOTO(done, sample(config, transport, json));
done:
    pt_free(config);
    return status;
}

const pt_command_t pt_command_sample = {
    .name = "sample",
    .arguments = "[CONF] [section.key=value ...] [--json]",
    .summary = "Continues texts with a trained model",
    .details =
        "Reads the newest checkpoint of run.dir, or the one named by "
        "checkpoint.resume=FILE, and\n"
        "writes sample.prompt and its continuation, nothing else, to stdout, one byte "
        "per "
        "token.\n"
        "With sample.prompt_file (each line a prompt) or sample.count > 1 the texts "
        "follow each other\n"
        "below lines '==> prompt P, text T <=='. --json: an array of objects, in the "
        "same order,\n"
        "with \"prompt\" and \"text\", the continuation; bytes that are not UTF-8 "
        "become U+FFFD.\n"
        "Choices depend on sample.seed, the number of the prompt, that of the text, "
        "and "
        "the position of\n"
        "the byte, not on sample.batch or on the other prompts.\n"
        "Model, precision and context length (train.sequence) are those of the "
        "checkpoint.\n"
        "When a text reaches that length, the model continues with the newer half as "
        "context.\n"
        "An empty prompt stands for the beginning of a line. Runs on one rank, "
        "without mpiexec; from\n"
        "run.* it takes dir, device, isa, threads and log_level.",
    .sections = "sample,checkpoint,run",
    .run = sample_run,
};
