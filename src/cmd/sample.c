#include "src/cmd/sample.h"
#include "penta/alloc.h"
#include "penta/checkpoint.h"
#include "penta/log.h"
#include "src/cmd/private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- checkpoint -------------------------------------------------------------------------- */

/* The newest that can be read; a damaged one is named and skipped. */
static pt_status_t open_newest(const pt_config_t *config, pt_wire_t *wire,
                               const pt_checkpoint_entry_t *list, int count,
                               pt_generator_t **out)
{
    const char *dir = config->run.dir;

    PT_CHECK_COMMON(
        count > 0, PT_IO,
        "%s/checkpoints: no checkpoint here: train first (penta train run.dir=%s), "
        "or name another run.dir, or a file by checkpoint.resume=FILE",
        dir, dir);
    for (int i = 0; i < count; i++) {
        pt_status_t status = pt_generator_create(config, wire, list[i].path, out);
        if (status != PT_IO)
            return status;
        pt_error_warn("skipped a damaged checkpoint");
    }
    return PT_FAIL_COMMON(
        PT_IO,
        "%s/checkpoints: none of its %d checkpoints can be read (see the "
        "warnings above); name another run.dir, or a file by "
        "checkpoint.resume=FILE",
        dir, count);
}

/* `list` holds the path the generator borrows. */
static pt_status_t open_generator(const pt_config_t *config, pt_wire_t *wire,
                                  pt_checkpoint_entry_t **list, pt_generator_t **out)
{
    char directory[PT_CONFIG_TEXT + 16];
    const char *resume = config->checkpoint.resume;
    int count = 0;

    PT_CHECK_COMMON(
        strcmp(resume, "none") != 0, PT_CONFIG,
        "checkpoint.resume=none: sampling needs a checkpoint: auto or FILE");
    if (strcmp(resume, "auto") != 0)
        return pt_generator_create(config, wire, resume, out);
    snprintf(directory, sizeof directory, "%s/checkpoints", config->run.dir);
    PT_TRY(pt_checkpoint_list(directory, list, &count));
    return open_newest(config, wire, *list, count, out);
}

/* ---- text -------------------------------------------------------------------------------- */

static pt_status_t put(const void *bytes, size_t length)
{
    bool written = fwrite(bytes, 1, length, stdout) == length && fflush(stdout) == 0;

    PT_CHECK_COMMON(written, PT_IO, "standard output cannot be written: %s",
                    strerror(errno));
    return PT_OK;
}

/* What the model looks back at: the last bytes of the text, at most a window of them. */
typedef struct context {
    uint8_t *text;
    int64_t length, window;
} context_t;

static void add(context_t *context, uint8_t byte)
{
    if (context->length == context->window) {
        memmove(context->text, context->text + 1, (size_t)context->window - 1);
        context->length--;
    }
    context->text[context->length++] = byte;
}

static pt_status_t extend(const pt_config_t *config, pt_generator_t *generator,
                          context_t *context)
{
    const char *prompt = config->sample.prompt;
    pt_choice_t choice = {.temperature = config->sample.temperature,
                          .top_k = config->sample.top_k,
                          .seed = (uint64_t)config->sample.seed};
    double logits[PT_BYTES];

    for (const char *c = *prompt ? prompt : "\n"; *c; c++)
        add(context, (uint8_t)*c);
    PT_TRY(put(prompt, strlen(prompt)));
    for (int64_t i = 0; i < config->sample.tokens; i++) {
        PT_TRY(pt_generator_logits(generator, context->text, context->length, logits));
        uint8_t byte = (uint8_t)pt_choose(&choice, logits, i);
        PT_TRY(put(&byte, 1));
        add(context, byte);
    }
    return isatty(STDOUT_FILENO) ? put("\n", 1) : PT_OK;
}

static pt_status_t sample(const pt_config_t *config, pt_wire_t *wire)
{
    pt_checkpoint_entry_t *list = NULL;
    pt_generator_t *generator = NULL;
    context_t context = {.text = NULL};
    pt_status_t status;

    PT_TRY_GOTO(done, open_generator(config, wire, &list, &generator));
    context.window = pt_generator_window(generator);
    PT_TRY_GOTO(done, PT_NEW("context", (size_t)context.window, &context.text));
    pt_log_root(PT_LOG_INFO, "%s, step %" PRId64 ", loss %.4f",
                pt_generator_path(generator), pt_generator_step(generator),
                pt_generator_loss(generator));
    PT_TRY_GOTO(done, extend(config, generator, &context));
done:
    pt_free(context.text);
    pt_generator_destroy(generator);
    pt_free(list);
    return status;
}

static pt_status_t run(int argc, char **argv, pt_wire_t *wire)
{
    pt_config_t *config = NULL;
    pt_status_t status;

    PT_TRY(PT_NEW("configuration", 1, &config));
    PT_TRY_GOTO(done, pt_cmd_config(wire, argc, argv, config));
    pt_log_set_level((pt_log_level_t)config->run.log_level);
    PT_TRY_GOTO(done, sample(config, wire));
done:
    pt_free(config);
    return status;
}

const pt_command_t pt_command_sample = {
    .name = "sample",
    .arguments = "[CONF] [section.key=value ...]",
    .summary = "Continues a text with a trained model",
    .details = "Reads the newest checkpoint of run.dir, or the one named by "
               "checkpoint.resume=FILE, and\n"
               "writes sample.prompt and what follows to stdout, one byte a token; "
               "nothing else goes there.\n"
               "Model, precision and the length it looks back (train.sequence) are "
               "those of the checkpoint.\n"
               "An empty prompt stands for the beginning of a line. Runs on one rank, "
               "without mpiexec; from\n"
               "run.* it takes dir, device, isa, threads and log_level.",
    .sections = "sample,checkpoint,run",
    .run = run,
};
