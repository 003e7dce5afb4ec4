/* TEST timeout=60 */
/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong configurations: what is said, and that the same is said to every rank. */
#include "penta/base/alloc.h"
#include "penta/config/config.h"
#include "regression/tap.h"

#include <string.h>
#include <sys/stat.h>

static pt_config_t config;

static void write_file(const char *path, const char *text, size_t length)
{
    FILE *file = fopen(path, "w");

    if (!file || fwrite(text, 1, length, file) != length || fclose(file) != 0)
        tap_ok(0, "cannot write %s", path);
}

/* Gather, then parse; PT_OK or the status of what failed first. */
static pt_status_t load(const char *file, int argc, const char *const *argv)
{
    char *gathered, *args[4] = {0};
    pt_status_t status;

    for (int i = 0; i < argc; i++)
        args[i] = (char *)argv[i];
    pt_error_clear();
    status = pt_config_gather(file, argc, args, &gathered);
    if (status == PT_OK)
        status = pt_config_parse(gathered, &config);
    if (status == PT_OK)
        status = pt_config_check_layout(&config, 6);
    pt_free(gathered);
    return status;
}

/* An error of kind CONFIG, common, one message with these parts. */
static void expect(const char *label, pt_status_t status, const char *const *parts)
{
    const pt_error_t *error = pt_error_last();
    int missing = 0;

    for (int i = 0; i < 3 && parts[i]; i++)
        missing += strstr(error->text, parts[i]) == NULL;
    tap_ok(status == PT_CONFIG && error->scope == PT_SCOPE_COMMON && missing == 0,
           "%s: %s", label, error->text);
}

static const struct {
    const char *argument, *parts[3];
} arguments[] = {
    {"train.step=1",
     {"command line: train.step: no such option", "maybe: train.steps?"}},
    {"trian.steps=1", {"maybe: train.steps?"}},
    {"steps=1", {"steps: no such option", "maybe: train.steps?"}},
    {"model.sequence=9", {"maybe: train.sequence?"}},
    {"conf=tiny.ini", {"configuration file as the first argument", ": tiny.ini"}},
    {"--config=tiny.ini", {"configuration file as the first argument", ": tiny.ini"}},
    {"model.sice=9", {"model.sice: no such option; penta"}},
    {"train.sparsity=1", {"train.sparsity: no such option; penta"}},
    {"train.decay=abc", {"train.decay=abc: not a choice; allowed"}},
    {"frobnicate=1", {"frobnicate: no such option", "--help"}},
    {"=1", {"=1: not section.key=value"}},
    {"train.steps", {"train.steps: not section.key=value"}},
    {"--steps=3", {"--steps=3", "train.steps=100"}},
    {"train.steps=abc",
     {"command line: train.steps=abc", "whole number", "1 to 1099511627776"}},
    {"train.steps=", {"train.steps=:", "whole number"}},
    {"train.steps=1.5", {"train.steps=1.5", "whole number"}},
    {"train.steps=0", {"train.steps=0", "nearest is 1;"}},
    {"train.steps=99999999999999999999999", {"train.steps=99999999999999999999999"}},
    {"train.steps=10 # ten", {"begins with ;"}},
    {"model.layers=2^40", {"model.layers=2^40", "nearest is 100000"}},
    {"train.seed=-1", {"train.seed=-1", "nearest is 0"}},
    {"train.lr=fast", {"train.lr=fast", "not a finite number"}},
    {"train.lr=nan", {"train.lr=nan", "not a finite number"}},
    {"train.lr=1e999", {"train.lr=1e999", "not a finite number"}},
    {"train.clip=-1", {"train.clip=-1", "nearest is 0"}},
    {"train.beta2=1", {"train.beta2=1", "0 to 0.999999"}},
    {"data.shuffle=maybe", {"data.shuffle=maybe", "yes or no"}},
    {"train.decay=cosin", {"maybe: cosine?", "cosine|linear|constant|wsd"}},
    {"train.decay=\xff\xfe", {"train.decay=\\xff\\xfe", "not a choice"}},
    {"train.precision=bf61", {"train.precision=bf61", "fp64|fp32|bf16|fp16"}},
    {"train.loss_scale=1024", {"train.loss_scale=1024", "only fp16"}},
    {"train.loss_scale=fast", {"train.loss_scale=fast", "power of two"}},
    {"train.loss_scale=dynamc", {"maybe: dynamic?"}},
    {"train.loss_scale=3000", {"train.loss_scale=3000", "nearest is 4096"}},
    {"train.loss_scale=0", {"train.loss_scale=0", "nearest is 1"}},
    {"train.loss_scale=1e30", {"train.loss_scale=1e30", "nearest is 1099511627776"}},
    {"train.grad_dtype=bf16", {"train.grad_dtype=bf16", "fp32", "train.precision=bf16"}},
    {"train.moments_dtype=bf16",
     {"train.moments_dtype=bf16", "fp32", "train.precision=bf16"}},
    {"sample.prompt=\"abc\\q\"", {"broken quotes"}},
    {"model.preset=tinny", {"model.preset=tinny", "maybe: tiny?", "llama3-405b"}},
    {"model.preset=gpt2", {"maybe: gpt2-124m?"}},
    {"model.preset=GPT2-XL", {"maybe: gpt2-124m?"}},
    {"model.preset=qwen3", {"maybe: qwen3-8b?"}},
    {"model.preset=llama", {"maybe: llama3-8b?"}},
    {"train.decay=cos", {"maybe: cosine?"}},
    {"model.preset=", {"not complete", "model.layers", "model.tied"}},
    {"model.kv_heads=3",
     {"model.kv_heads=3 (command line) must divide model.heads=8 (preset tiny)",
      "nearest is 4"}},
    {"model.kv_heads=16", {"nearest is 8"}},
    {"model.hidden=100",
     {"model.hidden=100", "model.heads=8", "change model.hidden to 96"}},
    {"model.head_dim=13", {"model.head_dim=13", "even", "nearest is 14"}},
    {"model.rotary_fraction=0.3",
     {"model.rotary_fraction=0.3", "even number of columns"}},
    {"model.rotary_base=0.5", {"model.rotary_base=0.5", "above 1"}},
    {"train.sequence=5000", {"train.sequence=5000", "model.max_positions=4096"}},
    {"parallel.tensor=2",
     {"parallel.tensor=2", "no tensor parallelism", "parallel.data"}},
    {"parallel.pipeline=4", {"parallel.pipeline=4", "no pipeline parallelism"}},
    {"parallel.expert=2", {"parallel.expert=2"}},
    {"parallel.data=4", {"parallel.data=4", "6 ranks", "set it to 6"}},
    {"parallel.ranks=4", {"parallel.ranks=4", "6 ranks"}},
    {"parallel.zero=4", {"parallel.zero=4", "one of 0|1"}},
    {"parallel.order=tensor,tensor,pipeline,data", {"parallel.order", "once each"}},
    {"parallel.order=tensor,context,pipeline,data,", {"parallel.order", "once each"}},
    {"parallel.order=", {"parallel.order", "once each"}},
    {"parallel.recompute=selectiv", {"maybe: selective?"}},
    {"parallel.recompute=every:9", {"every:9", "model.layers=8"}},
    {"parallel.recompute=every:0", {"every:0", "K must be 1"}},
    {"parallel.recompute=every:x", {"every:x", "every:K"}},
    {"run.device=cuda", {"run.device=cuda", "cpu"}},
    {"train.min_lr=1", {"train.min_lr=1 (command line)", "train.lr=0.001 (default)"}},
    {"train.warmup=1000", {"train.warmup=1000", "train.steps=100"}},
    {"train.beta1=0.95", {NULL}}, /* right by itself */
    {"data.split=1", {"data.split=1", "0.95,0.05"}},
    {"data.split=0.9,0.2", {"data.split=0.9,0.2", "nearest is 0.9,0.1"}},
    {"data.split=0,1", {"nothing to train on"}},
    {"data.format=u8", {"data.format=u8", "text|idx|u16|u32"}},
    {"data.path=a,,b", {"data.path=a,,b (command line): name 2 of 3", "empty"}},
    {"data.path=a,", {"data.path=a,", "name 2 of 2"}},
    {"data.path= , a", {"name 1 of 2"}},
    {"data.validation=a=x,,b=x", {"data.validation=", "name 2 of 3"}},
    {"data.validation=x", {"data.validation=x", "item 1", "NAME=FILE"}},
    {"data.validation=a=x,b=", {"item 2", "NAME=FILE"}},
    {"data.validation==x", {"name 1", "letters"}},
    {"data.validation=a b=x", {"name 1", "letters"}},
    {"data.validation=a=x,b=y,a=z", {"two corpora are called a"}},
    {"data.validation=a=x=y, b.2_c-D = y", {NULL}},
    {"data.validation_mask=m", {"data.validation_mask=m", "names 1", "names 0"}},
    {"checkpoint.resume=atuo", {"maybe: auto?"}},
    {"checkpoint.resume=", {"checkpoint.resume", "auto, none"}},
    {"run.dir=", {"run.dir", "directory"}},
    {"run.time_limit=10", {"run.time_limit=10", "[HH:]MM:SS"}},
    {"run.time_limit=1:60:00", {"[HH:]MM:SS"}},
    {"run.time_limit=00:00", {"more than 0"}},
    {"run.time_limit=1:2:3:4", {"[HH:]MM:SS"}},
    {"model.config_json=missing.json",
     {"model.config_json missing.json", "cannot open"}},
};

static void check_arguments(void)
{
    for (size_t i = 0; i < sizeof arguments / sizeof arguments[0]; i++) {
        pt_status_t status = load(NULL, 1, &arguments[i].argument);

        if (arguments[i].parts[0])
            expect("argument", status, arguments[i].parts);
        else
            tap_ok(status == PT_OK, "%s is right: %s", arguments[i].argument,
                   pt_error_last()->text);
    }
}

static const struct {
    const char *arguments[2], *parts[3];
} pairs[] = {
    {{"train.beta1=0.999", "train.beta2=0.9"}, {"train.beta1=0.999", "swapped"}},
    {{"train.decay=wsd", "train.wsd_decay=95"},
     {"train.wsd_decay=95", "train.wsd_decay=90"}},
    {{"train.warmup=20", "train.decay_steps=10"},
     {"train.warmup=20", "train.decay_steps=10"}},
    {{"run.eval_every=5", "data.split=1,0"}, {"run.eval_every=5", "data.split=1,0"}},
    {{"data.path=a,b", "data.mask=m"},
     {"data.mask=m (command line) names 1", "data.path=a,b", "names 2"}},
    {{"data.path=a,b", "data.mask=m,,"}, {"data.mask=m,,", "name 2 of 3"}},
    {{"data.validation=a=x,b=y", "data.validation_mask=m"}, {"names 1", "names 2"}},
    {{"model.vocab=100", "data.path=x"}, {"model.vocab=100", "256"}},
    {{"data.separator=x", "data.format=idx"}, {"data.separator=x", "data.format=idx"}},
    {{"model.preset=tiny", "model.config_json=x.json"}, {"contradicts"}},
    {{"model.positions=learned", "train.sequence=4097"}, {"train.sequence=4097"}},
    {{"train.micro_batch=2^20", "train.sequence=2^12"},
     {"train.micro_batch=1048576", "rows"}},
    {{"train.steps=2^40", "train.global_batch=2^20"}, {"more tokens"}},
    {{"train.precision=fp64", "train.grad_dtype=fp32"},
     {"train.grad_dtype=fp32", "train.precision=fp64", "everything is fp64"}},
    {{"train.precision=fp64", "train.moments_dtype=fp32"},
     {"train.moments_dtype=fp32", "train.precision=fp64"}},
    {{"train.precision=fp64", "parallel.reduce_dtype=bf16"},
     {"parallel.reduce_dtype=bf16", "train.precision=fp64"}},
    {{"train.precision=fp16", "train.grad_dtype=bf16"},
     {"train.grad_dtype=bf16", "train.precision=fp16", "accumulated in fp32"}},
    {{"train.precision=fp16", "train.moments_dtype=bf16"},
     {"train.moments_dtype=bf16", "train.precision=fp16"}},
    {{"train.precision=bf16", "train.loss_scale=8"},
     {"train.loss_scale=8", "train.precision=bf16", "only fp16"}},
};

static const struct {
    const char *text, *parts[3];
} files[] = {
    {"[train]\nsteps = ten\n", {"bad.ini:2: train.steps=ten"}},
    {"[train]\nsteps = 1\n\n# c\nsteps = 2\n",
     {"bad.ini:5: train.steps is given twice", "line 2"}},
    {"[train]\nstep = 1\n", {"bad.ini:2: train.step:", "maybe: train.steps?"}},
    {"[trian]\nsteps = 1\n", {"bad.ini:1: [trian]: no such section", "[train]?"}},
    {"steps = 1\n", {"bad.ini:1: steps stands before any [section]"}},
    {"[train\nsteps = 1\n", {"bad.ini:1: neither [section]"}},
    {"[train]\nseed = 2\nsteps 5\n", {"bad.ini:3: neither [section]"}},
    {"[train]\nsteps = 5\n  seed = 3\n",
     {"bad.ini:3:", "first column", "train.steps, line 2"}},
    {"[data]\npath = a\n  split = 1,0\n", {"bad.ini:3:", "first column"}},
    {"[data]\npath = \"a\\\"\n", {"bad.ini:2: data.path=", "broken quotes"}},
    {"[run]\ndir = a\x01z\n", {"bad.ini:2: byte 0x01"}},
    {"[run]\ndir = a\x02z\n", {"bad.ini:2: byte 0x02 at column 8"}},
    {"[run]\n\xff\xfe\n", {"bad.ini:2: neither"}},
    {"[tr\xc3\xa4in]\nsteps = 1\n",
     {"bad.ini:1: [tr\\xc3\\xa4in]: no such section; maybe: [train]?"}},
    {"[train]lr=1\n", {"bad.ini:1: text after the ]"}},
    {"[train] lr = 1\n", {"bad.ini:1: text after the ]"}},
    {"[run]\n[train]]\n", {"bad.ini:2: text after the ]"}},
    {"[train]\xc2\xa0\nlr = 1\n", {"bad.ini:1: text after the ]"}},
    {"[train]\nlr = 1\n[foo]\n", {"bad.ini:3: [foo]: no such section"}},
    {"  [trian]\n", {"bad.ini:1: [trian]: no such section; maybe: [train]?"}},
    {"[ train ]\nlr = 1\n", {"bad.ini:1: [ train ]: no such section"}},
    {"[]\nlr = 1\n", {"bad.ini:1: []: no such section"}},
    {"train.lr = 1\n", {"bad.ini:1: train.lr stands before any [section]"}},
    {"[train]\nLR = 1\n", {"bad.ini:2: train.LR: no such option; maybe: train.lr?"}},
    {"[train]\nlr = 0x10\n",
     {"bad.ini:2: train.lr=0x10: not a finite number in decimal"}},
    {"[train]\nlr = 0x1p-3\n", {"train.lr=0x1p-3: not a finite number in decimal"}},
    {"[train]\nsteps = 0x10\n", {"train.steps=0x10: not a whole number"}},
    {"[train]\nlr = 1e-400\n", {"train.lr=1e-400: not a finite number in decimal"}},
    {"[train]\nlr = 0,001\n", {"train.lr=0,001: not a finite number in decimal"}},
    {"[train]\nlr = 1e-3f\n", {"train.lr=1e-3f: not a finite number in decimal"}},
    {"[train]\nsteps = 1_000\n", {"train.steps=1_000: not a whole", "1e3"}},
    {"[train]\nsteps = 1,000\n", {"train.steps=1,000: not a whole"}},
    {"[train]\nsteps = 1k\n", {"train.steps=1k: not a whole"}},
    {"[train]\nsteps = 10s\n", {"train.steps=10s: not a whole"}},
    {"[run]\ndir = 'x'\n", {"bad.ini:2: run.dir='x': broken quotes"}},
    {"[run]\ndir = \"x\n", {"bad.ini:2: run.dir=\"x: broken quotes"}},
    {"[run]\ndir = x\"\n", {"bad.ini:2: run.dir=x\": broken quotes"}},
    {"[run]\ndir = \"x\" y\n", {"bad.ini:2: run.dir=\"x\" y: broken quotes"}},
};

static void check_files(void)
{
    static char big[1 << 21];
    char line[400];

    write_file("x.json", "{}", 2);
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        expect("pair", load(NULL, 2, pairs[i].arguments), pairs[i].parts);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        write_file("bad.ini", files[i].text, strlen(files[i].text));
        expect("file", load("bad.ini", 0, NULL), files[i].parts);
    }
    memset(line, 'x', sizeof line);
    memcpy(line, "[data]\npath = ", 14);
    write_file("bad.ini", line, 7 + 198);
    expect("198 bytes", load("bad.ini", 0, NULL),
           (const char *[]){"bad.ini:2: line of 198 bytes; at most 197", "indented",
                            NULL});
    write_file("bad.ini", line, 7 + 197);
    tap_ok(load("bad.ini", 0, NULL) == PT_OK && strlen(config.data.path) == 190,
           "197 bytes are taken whole");
    memcpy(line, "#ata]\npath = ", 7);
    line[6] = '#';
    write_file("bad.ini", line, 399);
    tap_ok(load("bad.ini", 0, NULL) == PT_OK, "long comments are fine: %s",
           pt_error_last()->text);
    write_file("bad.ini", "[run]\ndir\0=x\n", 13);
    expect("NUL", load("bad.ini", 0, NULL),
           (const char *[]){"bad.ini: holds a NUL", NULL});
    write_file("bad.ini", big, 0);
    tap_ok(load("bad.ini", 0, NULL) == PT_OK, "an empty file is a configuration");
    memset(big, '\n', sizeof big);
    write_file("bad.ini", big, sizeof big);
    expect("2 MiB", load("bad.ini", 0, NULL),
           (const char *[]){"bad.ini: more than", NULL});
    mkdir("folder", 0777);
    expect("folder", load("folder", 0, NULL),
           (const char *[]){"folder: cannot read", NULL});
    expect("missing", load("no.ini", 0, NULL),
           (const char *[]){"no.ini: cannot open", NULL});
}

/* Names of variables that nobody reads. */
static void check_spellings(void)
{
    static const char *const names[] = {"penta_train_lr",  "PENTA_train_lr",
                                        "Penta_Train_Lr",  "PENTA_TRAIN.LR",
                                        "PENTA_TRAIN_LRR", "PENTA_TRAIN-LR"};
    static const char *const others[] = {"PENTA_HOME", "PENTA_SRCDIR", "PENTA_FAULT",
                                         "PENTA_TEST_LR", "PENTAGON_TRAIN_LR"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        setenv(names[i], "1", 1);
        expect("environment", load(NULL, 0, NULL),
               (const char *[]){names[i], "PENTA_TRAIN_LR?", NULL});
        unsetenv(names[i]);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        setenv(others[i], "1", 1);
        tap_ok(load(NULL, 0, NULL) == PT_OK, "%s is not ours: %s", others[i],
               pt_error_last()->text);
        unsetenv(others[i]);
    }
}

static void check_precedence(void)
{
    static const char text[] =
        "\xef\xbb\xbf[train]\r\nsteps = 2 ; two\r\nseed = 5\r\nlr = 0.5\r\n"
        "[data]\npath = a.txt\n  b.txt\n  c.txt\n[sample]\n"
        "prompt = \"one \"\n   \"two\"\n";
    const char *args[] = {"train.steps=4", "train.steps=5", "run.dir=a\nb"};

    write_file("good.ini", text, sizeof text - 1);
    setenv("PENTA_TRAIN_STEPS", "3", 1);
    setenv("PENTA_TRAIN_SEED", "6", 1);
    setenv("PENTA_TRAIN_CLIP", "", 1);
    setenv("PENTA_FAULT", "x", 1);
    setenv("PENTA_TEST_STEPS", "x", 1);
    tap_ok(load("good.ini", 3, args) == PT_OK, "file, environment, arguments: %s",
           pt_error_last()->text);
    tap_ok(config.train.steps == 5 &&
               strcmp(config.origin[PT_OPTION_train_steps], "command line") == 0,
           "the last argument wins");
    tap_ok(config.train.seed == 6 && strcmp(config.origin[PT_OPTION_train_seed],
                                            "environment PENTA_TRAIN_SEED") == 0,
           "environment over file");
    tap_ok(config.train.lr == 0.5 &&
               strcmp(config.origin[PT_OPTION_train_lr], "good.ini:4") == 0,
           "file over default, with its line: %s", config.origin[PT_OPTION_train_lr]);
    tap_ok(config.train.clip == 1, "an empty variable is as if unset");
    tap_ok(strcmp(config.data.path, "a.txt,b.txt,c.txt") == 0,
           "a list by indented lines: %s", config.data.path);
    tap_ok(strcmp(config.sample.prompt, "one two") == 0, "a text by quoted parts");
    tap_ok(strcmp(config.run.dir, "a\nb") == 0,
           "a new line in an argument stays in it");
    setenv("PENTA_TRAIN_STEPS", "many", 1);
    expect("environment", load(NULL, 0, NULL),
           (const char *[]){"environment PENTA_TRAIN_STEPS: train.steps=many", NULL});
    unsetenv("PENTA_TRAIN_STEPS");
    setenv("PENTA_TRAIN_STEP", "1", 1);
    expect("environment", load(NULL, 0, NULL),
           (const char *[]){"PENTA_TRAIN_STEP: no such option", "PENTA_TRAIN_STEPS?",
                            NULL});
    unsetenv("PENTA_TRAIN_STEP");
    setenv("PENTA_TRIAN_STEPS", "1", 1);
    expect("environment", load(NULL, 0, NULL),
           (const char *[]){"maybe: PENTA_TRAIN_STEPS?", NULL});
    unsetenv("PENTA_TRIAN_STEPS");
    unsetenv("PENTA_TRAIN_SEED");
    check_spellings();
}

int main(void)
{
    check_arguments();
    check_files();
    check_precedence();
    return tap_done();
}
