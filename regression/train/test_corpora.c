/* TEST np=1,2,3,4 backend=cpu,shadow timeout=180 */
/* SPDX-License-Identifier: Apache-2.0 */
/* data.validation: the loss of a corpus is that of the same text where it is the
 * validation split of data.path, is the same bits on any number of ranks, and stands in
 * the files of the run in the order given.
 */
#include "regression/train/train_test.h"

enum { BYTES = 2401, SEQUENCE = 16, TRAIN = 105 /* samples, of 150 */ };

#define MODEL                                                                          \
    TT_LLAMA "train.global_batch=7 data.split=0.7,0.3 run.eval_sequences=0 "           \
             "data.mask=corpus.mask "

/* The mask of the corpus, and both from the first sample of the validation on. */
static void write_files(void)
{
    static char text[BYTES], mask[BYTES];
    const int64_t first = TRAIN * SEQUENCE;
    const struct {
        const char *path, *from;
        int64_t bytes;
    } files[] = {{"corpus.mask", mask, BYTES},
                 {"tail.txt", text + first, BYTES - first},
                 {"tail.mask", mask + first, BYTES - first}};
    FILE *file = fopen("corpus.txt", "rb");

    if (!file || fread(text, 1, BYTES, file) != BYTES || fclose(file) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int64_t i = 0; i < BYTES; i++)
        mask[i] = text[i] % 3 != 0;
    for (int f = 0; f < 3 && tt.rank == 0; f++) {
        file = fopen(files[f].path, "wb");
        if (!file ||
            fwrite(files[f].from, 1, (size_t)files[f].bytes, file) !=
                (size_t)files[f].bytes ||
            fclose(file) != 0)
            MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void losses(pt_transport_t *transport, const char *more, double loss[4])
{
    pt_config_t *config =
        tt_config(MODEL "data.validation=a=tail.txt,b=tail.txt,c=corpus.txt "
                        "data.validation_mask=tail.mask,-,corpus.mask ",
                  more);
    pt_trainer_t trainer;
    bool stopped;

    MUST(pt_trainer_create(config, transport, &trainer));
    for (int which = 0; which < 4; which++)
        MUST(pt_train_evaluate(&trainer, which, NULL, NULL, &loss[which], &stopped));
    pt_trainer_destroy(&trainer);
    pt_free(config);
}

static void test_losses(const char *more)
{
    double all[4], alone[4];

    losses(tt.transport, more, all);
    losses(tt.serial, more, alone);
    tap_all(all[1] == all[0], "%s: the same text, the same bits: %.17g", more, all[1]);
    tap_all(all[2] != all[0] && all[3] != all[0] && isfinite(all[2]),
            "… and others without mask or with more text");
    tap_all(memcmp(all, alone, sizeof all) == 0, "the same bits as on one rank");
}

/* The first few sequences of each only. */
static void test_few(void)
{
    double all[4], few[4];

    losses(tt.transport, "", all);
    losses(tt.transport, "run.eval_sequences=5", few);
    tap_all(few[0] == few[1] && few[0] != all[0], "run.eval_sequences goes for each");
}

static bool always(void *self)
{
    (void)self;
    return true;
}

/* One round of each: too few to be asked in. */
static void test_stop(void)
{
    pt_config_t *config =
        tt_config(MODEL "run.eval_sequences=1 ", "data.validation=a=tail.txt");
    pt_trainer_t trainer;
    double loss[2];
    bool stopped[2];

    MUST(pt_trainer_create(config, tt.transport, &trainer));
    for (int i = 0; i < 2; i++)
        MUST(pt_train_evaluate(&trainer, i, always, NULL, &loss[i], &stopped[i]));
    tap_all(!stopped[0] && isfinite(loss[0]), "a step was asked just before");
    tap_all(stopped[1] && isnan(loss[1]), "asked before each further corpus");
    pt_trainer_destroy(&trainer);
    pt_free(config);
}

/* To this process, what stands in the open file `name` ends at once. */
static void lose_file(const char *name)
{
    char link[64], target[4096];
    int nothing = open("/dev/null", O_RDONLY);

    for (int fd = 3; fd < 256; fd++) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(link, target, sizeof target - 1);
        target[length > 0 ? length : 0] = '\0';
        const char *base = strrchr(target, '/');
        if (base && strcmp(base + 1, name) == 0)
            dup2(nothing, fd);
    }
    close(nothing);
}

/* A rank that cannot read must not stay away from a forward pass in which others wait
 * for it. */
static void test_unreadable(void)
{
    pt_config_t *config = tt_config(MODEL, "data.validation=a=tail.txt");
    pt_trainer_t trainer;
    bool stopped;
    double loss;

    MUST(pt_trainer_create(config, tt.transport, &trainer));
    int64_t passes = trainer.session.device->counts[PT_OP_embed_fwd].calls;
    if (tt.rank == tt.size - 1)
        lose_file("tail.txt");
    pt_status_t status = pt_train_evaluate(&trainer, 1, NULL, NULL, &loss, &stopped);
    tap_all(status == PT_IO && pt_error_last()->scope == PT_SCOPE_COMMON &&
                strstr(pt_error_last()->text, "tail.txt ends at byte"),
            "unreadable to one rank: the same failure on all");
    tap_all(trainer.session.device->counts[PT_OP_embed_fwd].calls == passes,
            "and none begins a forward pass");
    pt_error_clear();
    MUST(pt_train_evaluate(&trainer, 0, NULL, NULL, &loss, &stopped));
    tap_all(isfinite(loss), "another corpus is validated on all the same");
    pt_trainer_destroy(&trainer);
    pt_free(config);
}

static void test_run(void)
{
    pt_train_result_t with, without;
    pt_config_t *config = tt_config(
        MODEL "run.dir=with run.eval_every=2 data.validation_mask=-,tail.mask ",
        "data.validation=zebra=corpus.txt,ant=tail.txt");
    char line[4096];
    int seen = 0;
    bool right = true;

    MUST(tt_run(config, tt.transport, &with));
    pt_free(config);
    config = tt_config(MODEL, "run.dir=without");
    MUST(tt_run(config, tt.transport, &without));
    pt_free(config);
    tap_all(with.digest == without.digest &&
                with.validation_loss == without.validation_loss,
            "the run itself does not change");
    FILE *file = tt.rank == 0 ? fopen("with/metrics.jsonl", "r") : NULL;
    while (file && fgets(line, sizeof line, file)) {
        json_t *object = json_loads(line, 0, NULL);
        json_t *losses_of = json_object_get(object, "validation");

        if (losses_of) {
            json_t *split = json_object_get(object, "validation_loss");
            seen++;
            right = right &&
                    json_integer_value(json_object_get(object, "step")) == 2 * seen;
            right = right && json_equal(split, json_object_get(losses_of, "ant"));
            right = right && json_is_real(json_object_get(losses_of, "zebra"));
            right = right && strstr(line, "zebra") < strstr(line, "ant");
        }
        json_decref(object);
    }
    if (file)
        fclose(file);
    tap_all(tt.rank != 0 || (seen == 3 && right), "three validations in metrics.jsonl");
    json_t *summary =
        tt.rank == 0 ? json_load_file("with/summary.json", 0, NULL) : NULL;
    json_t *ant = json_object_get(json_object_get(summary, "validation"), "ant");
    tap_all(tt.rank != 0 || json_real_value(ant) == with.validation_loss,
            "and the last in summary.json");
    json_decref(summary);
}

/* A corpus in which nothing counts, and no split at all. */
static void test_none(void)
{
    pt_train_result_t result;
    pt_config_t *config = tt_config(
        TT_LLAMA "run.dir=none data.split=1,0 run.eval_every=3 data.path=corpus.txt ",
        "data.validation=x=tail.txt");

    MUST(tt_run(config, tt.transport, &result));
    tap_all(isnan(result.validation_loss), "no validation split");
    json_t *summary =
        tt.rank == 0 ? json_load_file("none/summary.json", 0, NULL) : NULL;
    json_t *x = json_object_get(json_object_get(summary, "validation"), "x");
    tap_all(tt.rank != 0 || (json_real_value(x) > 0 &&
                             json_is_null(json_object_get(summary, "validation_loss"))),
            "the corpus is validated on all the same");
    json_decref(summary);
    pt_free(config);
}

int main(int argc, char **argv)
{
    tt_start(&argc, &argv);
    tt_write_corpus("corpus.txt", BYTES);
    write_files();
    test_losses("");
    test_losses("train.precision=fp64 data.document_mask=true data.separator=\\n");
    test_few();
    test_stop();
    test_unreadable();
    test_run();
    test_none();
    return tt_finish();
}
