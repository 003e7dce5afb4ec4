/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/base/log.h"
#include "src/train/private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

typedef struct source {
    pt_trainer_t *trainer;
    pt_initial_t *out;
} source_t;

/* Master weights have the type of the file, whatever computes, unless one of the two is
 * fp64. */
static void init_tell_of_conversion(const pt_trainer_t *t,
                                    const pt_checkpoint_reader_t *reader,
                                    const char *path)
{
    int first = pt_checkpoint_find_tensor(reader, PT_CHECKPOINT_WEIGHTS,
                                          t->session.table.params[0].part[0].name);
    pt_dtype_t theirs = pt_checkpoint_tensor(reader, first)->dtype;
    pt_dtype_t ours = pt_optim_state(t->session.optim, PT_STATE_WEIGHT, 0).dtype;

    if (ours != theirs)
        pt_log_root(PT_LOG_INFO, "%s holds its weights in %s: they are converted to %s",
                    path, pt_dtype_name(theirs), pt_dtype_name(ours));
}

static pt_status_t init_take_file(const char *path, void *self)
{
    const source_t *source = self;
    pt_trainer_t *t = source->trainer;
    pt_checkpoint_reader_t *reader = NULL;
    pt_status_t status;

    t->where.phase = PT_PHASE_LOAD;
    PT_TRY(pt_checkpoint_open(t->session.mesh->world, path, &reader));
    PT_TRY_GOTO(close, pt_state_check_model(&t->session.table, reader, path));
    PT_TRY_GOTO(close,
                pt_config_check_model(t->config, pt_checkpoint_config(reader), path));
    pt_checkpoint_allow_rounding(reader);
    PT_TRY_GOTO(close, pt_state_load(&t->state, reader, path, PT_STATE_WEIGHT + 1));
    init_tell_of_conversion(t, reader, path);
    source->out->step = pt_checkpoint_header(reader)->step;
    snprintf(source->out->path, sizeof source->out->path, "%s", path);
close:
    pt_checkpoint_close(reader);
    return status;
}

/* The newest file of a run directory, or of the checkpoints folder in it. */
static pt_status_t init_take_newest(source_t *source, const char *directory)
{
    static const char advice[] = "name another run directory or a file";
    pt_comm_t *world = source->trainer->session.mesh->world;
    char inner[PT_CONFIG_TEXT + 16], option[PT_CONFIG_ORIGIN + 32];
    pt_checkpoint_entry_t found;

    (void)pt_checkpoint_directory(directory, inner, sizeof inner);
    PT_TRY(pt_checkpoint_newest(world, inner, advice, init_take_file, source, &found));
    if (!found.path[0])
        PT_TRY(pt_checkpoint_newest(world, directory, advice, init_take_file, source,
                                    &found));
    pt_config_origin(source->trainer->config, PT_OPTION_train_init_from, option,
                     sizeof option);
    PT_CHECK_COMMON(found.path[0], PT_CONFIG,
                    "%s: no checkpoint in the directory %s: name a run directory that "
                    "has one, or a file",
                    option, directory);
    return PT_OK;
}

/* What rank 0 finds under the name; 0: a file, or what opening it will complain of. */
static int init_kind_of(const char *path)
{
    struct stat info;

    if (stat(path, &info) != 0)
        return errno == ENOENT || errno == ENOTDIR ? -1 : 0;
    return S_ISDIR(info.st_mode) ? 1 : 0;
}

pt_status_t pt_train_init_from(pt_trainer_t *t, pt_initial_t *out)
{
    const char *path = t->config->train.init_from;
    source_t source = {t, out};
    char option[PT_CONFIG_ORIGIN + 32];
    int kind = 0;

    *out = (pt_initial_t){.step = 0};
    if (!path[0])
        return PT_OK;
    if (pt_comm_rank(t->session.mesh->world) == 0)
        kind = init_kind_of(path);
    PT_TRY(pt_comm_broadcast_bytes(t->session.mesh->world, 0, &kind, sizeof kind));
    pt_config_origin(t->config, PT_OPTION_train_init_from, option, sizeof option);
    PT_CHECK_COMMON(kind >= 0, PT_CONFIG, "%s: no file or directory %s", option, path);
    PT_TRY(kind == 1 ? init_take_newest(&source, path) : init_take_file(path, &source));
    return pt_state_digest(&t->state, &out->digest);
}
