/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/private.h"

#include <stdio.h>

static pt_status_t check_same_text(const pt_trainer_t *t,
                                   const pt_checkpoint_header_t *header,
                                   const char *path)
{
    int64_t now = pt_corpus_tokens(t->corpus);
    PT_CHECK_COMMON(
        header->data_tokens == now, PT_CONFIG,
        "data.path: the corpus has %lld tokens, when %s was made it had %lld: samples "
        "would come in another order; give the same files, or start afresh in another "
        "run.dir",
        (long long)now, path, (long long)header->data_tokens);
    PT_CHECK_COMMON(
        header->data_hash == t->data_hash, PT_CONFIG,
        "data.path: the corpus is as long as when %s was made, but another text, or "
        "has "
        "another data.mask; give the same files, or start afresh in another run.dir",
        path);
    return PT_OK;
}

pt_status_t pt_train_check_belongs(const pt_trainer_t *t,
                                   const pt_checkpoint_reader_t *reader,
                                   const char *path, int64_t *decay_steps)
{
    const pt_checkpoint_header_t *header = pt_checkpoint_header(reader);
    pt_resume_point_t point = {
        .path = path, .updates = header->adam_t, .decay_steps = header->decay_steps};
    PT_TRY(pt_config_check_resume(t->config, pt_checkpoint_config(reader), &point));
    *decay_steps = point.decay_steps;
    return check_same_text(t, header, path);
}

typedef struct view {
    const pt_trainer_t *trainer;
    pt_comm_t *alone;
} view_t;

static pt_status_t resume_look_at(const char *path, void *self)
{
    const view_t *view = self;
    pt_checkpoint_reader_t *reader = NULL;
    PT_TRY(pt_checkpoint_open(view->alone, path, &reader));
    int64_t decay_steps;
    pt_status_t status =
        pt_train_check_belongs(view->trainer, reader, path, &decay_steps);
    pt_checkpoint_close(reader);
    return status;
}

/* The first that can be read, in the order of a resume; whoever loads warns of the
 * others. */
static pt_status_t resume_look_at_newest(view_t *view)
{
    char directory[PT_CONFIG_TEXT + 16];
    pt_checkpoint_entry_t found;
    (void)pt_checkpoint_directory(view->trainer->config->run.dir, directory,
                                  sizeof directory);
    return pt_checkpoint_newest(NULL, directory, NULL, resume_look_at, view, &found);
}

static pt_status_t resume_look(const pt_trainer_t *t)
{
    const char *resume = t->config->checkpoint.resume;
    pt_transport_t *transport = NULL;
    pt_engine_t *engine = NULL;
    pt_engine_options_t options = {.device = NULL};
    pt_status_t status;
    pt_start_t start = pt_config_start(t->config);
    if (start == PT_START_AFRESH)
        return PT_OK;
    PT_TRY(pt_transport_open_serial(&transport));
    PT_TRY_GOTO(close, pt_engine_create(transport, &options, &engine));
    view_t view = {t, pt_engine_world(engine)};
    status = start == PT_START_NEWEST ? resume_look_at_newest(&view)
                                      : resume_look_at(resume, &view);
    pt_engine_destroy(engine);
close:
    pt_transport_close(transport);
    return status;
}

pt_status_t pt_train_look_ahead(pt_trainer_t *t)
{
    pt_comm_t *world = t->session.mesh->world;
    pt_status_t status = pt_comm_rank(world) == 0 ? resume_look(t) : PT_OK;
    if (status == PT_IO || status == PT_DAMAGED) {
        pt_error_clear(); /* whoever loads says so */
        status = PT_OK;
    }
    return pt_comm_agree(world, status, false);
}
