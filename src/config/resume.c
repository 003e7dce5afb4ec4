/* SPDX-License-Identifier: Apache-2.0 */
/* Compares an archived configuration with this one: on resume, and where only weights
 * are read. */
#include "penta/base/alloc.h"
#include "penta/base/log.h"
#include "src/config/private.h"

#include <stdio.h>
#include <string.h>

#define ID(section, key) PT_OPTION_##section##_##key

typedef struct archive {
    const pt_config_t *now;
    pt_config_t *then;
    pt_string_t unknown; /* keys that this version does not know */
} archive_t;

/* "\n  train.lr: now 0.1 (command line), checkpoint 0.2" */
static void resume_list_difference(const archive_t *archive, const pt_option_t *row,
                                   pt_string_t *out)
{
    pt_option_id_t id = pt_option_id(row);
    char *buffer, shown_now[PT_SHOWN], shown_then[PT_SHOWN];

    if (out->status == PT_OK)
        out->status = PT_NEW("value", 4 * PT_CONFIG_TEXT, &buffer);
    if (out->status != PT_OK)
        return;
    pt_config_value(archive->now, id, buffer, 4 * PT_CONFIG_TEXT);
    pt_show(buffer, shown_now, sizeof shown_now);
    pt_config_value(archive->then, id, buffer, 4 * PT_CONFIG_TEXT);
    pt_show(buffer, shown_then, sizeof shown_then);
    pt_string_add(out, "\n  %s.%s: now %s (%s), checkpoint %s", row->section, row->key,
                  shown_now[0] ? shown_now : "empty", archive->now->origin[id],
                  shown_then[0] ? shown_then : "empty");
    pt_free(buffer);
}

/* ---- Values with the same meaning ------------------------------------------------ */

/* The weight of a single file has no effect. */
static int resume_count_weights(const pt_config_t *config)
{
    int count = pt_config_items(config, ID(data, weights));

    return count == 1 ? 0 : count;
}

static bool resume_same_weights(const pt_config_t *a, const pt_config_t *b)
{
    int count = resume_count_weights(a);
    int64_t *weights = NULL;
    bool same = count == resume_count_weights(b);

    if (!same || count == 0)
        return same;
    if (PT_NEW("weights", 2 * count, &weights) != PT_OK)
        return false;
    same = pt_config_weights(a, count, weights) == PT_OK &&
           pt_config_weights(b, count, weights + count) == PT_OK &&
           memcmp(weights, weights + count, (size_t)count * sizeof *weights) == 0;
    pt_free(weights);
    return same;
}

/* auto means fp32 here; with fp64 only auto is allowed. */
static int resume_meant(int choice)
{
    return choice == PT_NARROW_AUTO ? PT_NARROW_FP32 : choice;
}

static bool resume_same_separator(const pt_config_t *a, const pt_config_t *b)
{
    char x[PT_CONFIG_TEXT], y[PT_CONFIG_TEXT];

    pt_unescape_all(a->data.separator, x);
    pt_unescape_all(b->data.separator, y);
    return strcmp(x, y) == 0;
}

static bool resume_same_bytes(const pt_config_t *a, const pt_config_t *b,
                              const pt_option_t *row)
{
    return memcmp(pt_option_view(a, row), pt_option_view(b, row), row->size) == 0;
}

static bool resume_is_same(const pt_config_t *a, const pt_config_t *b,
                           const pt_option_t *row)
{
    if (resume_same_bytes(a, b, row))
        return true;
    switch ((int)pt_option_id(row)) {
    case ID(data, weights): return resume_same_weights(a, b);
    case ID(data, separator): return resume_same_separator(a, b);
    case ID(train, grad_dtype):
        return resume_meant(a->train.grad_dtype) == resume_meant(b->train.grad_dtype);
    case ID(train, moments_dtype):
        return resume_meant(a->train.moments_dtype) ==
               resume_meant(b->train.moments_dtype);
    default: return false;
    }
}

/* ---- Resume ---------------------------------------------------------------------- */

static pt_status_t resume_read_archive(const char *ini, const char *path,
                                       const pt_config_t *now, archive_t *out)
{
    char name[PT_CONFIG_TEXT + 16];

    *out = (archive_t){.now = now};
    PT_TRY(PT_NEW("archived configuration", 1, &out->then));
    pt_config_defaults(out->then);
    snprintf(name, sizeof name, "%s: /config", path);
    return pt_ini_read(name, ini, strlen(ini), NULL, out->then, &out->unknown);
}

static void resume_free_archive(archive_t *archive)
{
    pt_free(archive->unknown.data);
    pt_free(archive->then);
}

/* Updates before the learning rate begins to fall. */
static int64_t resume_decay_begin(const pt_config_t *config, int64_t decay_steps)
{
    int64_t length = config->train.wsd_decay;

    switch (config->train.decay) {
    case PT_DECAY_CONSTANT: return INT64_MAX;
    case PT_DECAY_WSD: return decay_steps - (length > 0 ? length : decay_steps / 10);
    default: return pt_config_warmup(config, decay_steps);
    }
}

/* Whether neither the old nor the new decay has affected the updates so far. */
static bool resume_is_before_decay(const archive_t *archive,
                                   const pt_resume_point_t *point, int64_t wanted)
{
    return point->updates <= resume_decay_begin(archive->then, point->decay_steps) &&
           point->updates <= resume_decay_begin(archive->now, wanted);
}

/* Whether the length of the decay, if any, does not depend on the length of the
 * schedule. */
static bool resume_ends_by_itself(const pt_config_t *config)
{
    return config->train.decay == PT_DECAY_CONSTANT ||
           config->train.decay == PT_DECAY_WSD;
}

static bool resume_may_move(const archive_t *archive, const pt_resume_point_t *point,
                            int64_t wanted)
{
    return resume_ends_by_itself(archive->now) &&
           resume_ends_by_itself(archive->then) &&
           resume_is_before_decay(archive, point, wanted);
}

static void resume_add_reason(const archive_t *archive, const pt_resume_point_t *point,
                              int64_t wanted, pt_string_t *different)
{
    pt_string_add(different,
                  " (it may change until the decay begins: after update %lld of the "
                  "old, %lld of the new schedule, but %lld are done)",
                  (long long)resume_decay_begin(archive->then, point->decay_steps),
                  (long long)resume_decay_begin(archive->now, wanted),
                  (long long)point->updates);
}

/* The shape of the decay may change as long as the decay has no effect. `old`: the
 * checkpoint. */
static void resume_compare_shape(const archive_t *archive, const pt_resume_point_t *old,
                                 int64_t decay_steps, pt_string_t *different)
{
    int now = archive->now->train.decay, then = archive->then->train.decay;
    bool same =
        now == then && (now != PT_DECAY_WSD ||
                        resume_decay_begin(archive->now, decay_steps) ==
                            resume_decay_begin(archive->then, old->decay_steps));

    if (same || resume_is_before_decay(archive, old, decay_steps))
        return;
    resume_list_difference(
        archive, pt_option(now == then ? ID(train, wsd_decay) : ID(train, decay)),
        different);
    resume_add_reason(archive, old, decay_steps, different);
}

static void resume_settle_schedule(const archive_t *archive, pt_resume_point_t *point,
                                   pt_string_t *different)
{
    const pt_config_t *now = archive->now, *then = archive->then;
    int64_t given = now->train.decay_steps, wanted = given ? given : point->decay_steps;
    bool follows_steps =
        given == 0 && then->train.decay_steps == 0 && now->train.decay == PT_DECAY_WSD;

    if (follows_steps && now->train.steps > wanted)
        wanted = now->train.steps;
    if (wanted == point->decay_steps)
        return;
    if (resume_may_move(archive, point, wanted)) {
        point->decay_steps = wanted;
        return;
    }
    if (given == 0)
        return; /* continues at train.min_lr; the run warns of that */
    pt_string_add(different, "\n  train.decay_steps: now %lld (%s), checkpoint %lld",
                  (long long)given, now->origin[ID(train, decay_steps)],
                  (long long)point->decay_steps);
    if (now->train.decay == PT_DECAY_WSD && then->train.decay == PT_DECAY_WSD)
        resume_add_reason(archive, point, wanted, different);
}

/* Whether data.mask names a file. */
static bool resume_has_mask(const pt_config_t *config)
{
    char path[PT_CONFIG_TEXT];
    int count = pt_config_items(config, ID(data, mask));

    for (int i = 0; i < count; i++)
        if (pt_config_mask(config, ID(data, mask), i, path))
            return true;
    return false;
}

static void resume_list_differences(const archive_t *archive, pt_string_t *different)
{
    const pt_config_t *now = archive->now, *then = archive->then;

    for (int i = 0; i < PT_OPTION_COUNT; i++) {
        const pt_option_t *row = pt_option((pt_option_id_t)i);

        if (row->resume == PT_RESUME_FIXED && i != ID(train, decay_steps) &&
            !resume_is_same(now, then, row))
            resume_list_difference(archive, row, different);
    }
    /* Files may move, but a mask must not appear or disappear. */
    if (resume_has_mask(now) != resume_has_mask(then))
        resume_list_difference(archive, pt_option(ID(data, mask)), different);
    if (archive->unknown.length > 0)
        pt_string_add(different, "\n  options this version does not have: %s",
                      archive->unknown.data);
}

pt_status_t pt_config_check_resume(const pt_config_t *config, const char *archived_ini,
                                   pt_resume_point_t *point)
{
    pt_string_t different = {0};
    archive_t archive;
    pt_status_t status;

    PT_TRY_GOTO(free_all,
                resume_read_archive(archived_ini, point->path, config, &archive));
    resume_list_differences(&archive, &different);
    pt_resume_point_t old = *point;
    resume_settle_schedule(&archive, point, &different);
    resume_compare_shape(&archive, &old, point->decay_steps, &different);
    PT_TRY_GOTO(free_all, different.status);
    PT_TRY_GOTO(free_all, archive.unknown.status);
    if (different.length > 0)
        status = PT_FAIL_COMMON(
            PT_CONFIG,
            "options that must stay the same differ from those of the "
            "checkpoint:%s\nresume with the values of the checkpoint, or start anew "
            "with checkpoint.resume=none in another run.dir",
            different.data);
free_all:
    pt_free(different.data);
    resume_free_archive(&archive);
    return status;
}

/* Not reported: names of files, and options that only a fresh start reads. */
static bool resume_is_told(const pt_config_t *config, const pt_option_t *row)
{
    switch ((int)pt_option_id(row)) {
    case ID(model, preset):
    case ID(model, config_json):
    case ID(data, path):
    case ID(data, mask):
    case ID(train, init_from):
    case ID(checkpoint, resume): return false;
    default:
        return row->resume == PT_RESUME_FREE &&
               pt_option_effect(pt_option_id(row), config) == PT_EFFECT_RESULT;
    }
}

pt_status_t pt_config_tell_changes(const pt_config_t *config, const char *archived_ini,
                                   const char *path)
{
    pt_string_t changed = {0};
    archive_t archive;
    pt_status_t status;

    PT_TRY_GOTO(free_all, resume_read_archive(archived_ini, path, config, &archive));
    for (int i = 0; i < PT_OPTION_COUNT; i++) {
        const pt_option_t *row = pt_option((pt_option_id_t)i);
        char now[PT_CITED], then[PT_CITED], shown[2][PT_SHOWN];

        if (!resume_is_told(config, row) || resume_is_same(config, archive.then, row) ||
            config->source[i] == PT_SOURCE_DERIVED)
            continue;
        pt_config_value(config, (pt_option_id_t)i, now, sizeof now);
        pt_config_value(archive.then, (pt_option_id_t)i, then, sizeof then);
        pt_string_add(&changed, "%s %s.%s: %s in the checkpoint, now %s",
                      changed.length ? ";" : "", row->section, row->key,
                      pt_show(then, shown[0], sizeof shown[0]),
                      pt_show(now, shown[1], sizeof shown[1]));
    }
    PT_TRY_GOTO(free_all, changed.status);
    if (changed.length > 0)
        pt_log_root(PT_LOG_INFO, "options that change the result differ:%s",
                    changed.data);
free_all:
    pt_free(changed.data);
    resume_free_archive(&archive);
    return status;
}

/* ---- Weights alone --------------------------------------------------------------- */

/* Options of the model that do not affect existing weights. */
static bool resume_is_of_training(pt_option_id_t id)
{
    return id == ID(model, preset) || id == ID(model, config_json) ||
           id == ID(model, dropout) || id == ID(model, init_std);
}

/* These are changed on purpose, for example to continue with longer sequences. */
static bool resume_may_differ(pt_option_id_t id)
{
    return id == ID(model, max_positions) || id == ID(model, norm_eps) ||
           id == ID(model, rotary_base);
}

/* Whether names and shapes of tensors determine the option, even if the archive does
 * not have it. */
static bool resume_is_seen(pt_option_id_t id)
{
    return id != ID(model, heads) && id != ID(model, kv_heads) &&
           id != ID(model, head_dim) && id != ID(model, norm_eps) &&
           id != ID(model, rotary_base) && id != ID(model, rotary_fraction) &&
           id != ID(model, max_positions);
}

typedef struct comparison {
    pt_string_t wrong, other, unsaid;
} comparison_t;

static void resume_compare_model(const archive_t *archive, comparison_t *out)
{
    for (int i = 0; i < PT_OPTION_COUNT; i++) {
        pt_option_id_t id = (pt_option_id_t)i;
        const pt_option_t *row = pt_option(id);

        if (strcmp(row->section, "model") != 0 || resume_is_of_training(id))
            continue;
        if (!pt_model_is_given(archive->then, id)) {
            if (pt_model_is_given(archive->now, id) && !resume_is_seen(id))
                pt_string_add(&out->unsaid, "%s model.%s",
                              out->unsaid.length ? "," : "", row->key);
        } else if (!resume_is_same(archive->now, archive->then, row)) {
            resume_list_difference(archive, row,
                                   resume_may_differ(id) ? &out->other : &out->wrong);
        }
    }
}

pt_status_t pt_config_check_model(const pt_config_t *config, const char *archived_ini,
                                  const char *path)
{
    comparison_t found = {{0}, {0}, {0}};
    archive_t archive;
    pt_status_t status;

    PT_TRY_GOTO(free_all, resume_read_archive(archived_ini, path, config, &archive));
    resume_compare_model(&archive, &found);
    PT_TRY_GOTO(free_all, found.wrong.status);
    PT_TRY_GOTO(free_all, found.other.status);
    PT_TRY_GOTO(free_all, found.unsaid.status);
    if (found.unsaid.length > 0)
        pt_log_root(PT_LOG_WARN,
                    "%s does not record%s of its model, and tensor shapes do not "
                    "determine them: the values of this run are used",
                    path, found.unsaid.data);
    if (found.wrong.length > 0)
        status = PT_FAIL_COMMON(PT_CONFIG,
                                "%s holds weights of another model:%s\ngive the model "
                                "of the checkpoint (penta inspect FILE --config)",
                                path, found.wrong.data);
    else if (found.other.length > 0)
        pt_log_root(PT_LOG_WARN, "the weights of %s were trained with other values:%s",
                    path, found.other.data);
free_all:
    pt_free(found.unsaid.data);
    pt_free(found.other.data);
    pt_free(found.wrong.data);
    resume_free_archive(&archive);
    return status;
}
