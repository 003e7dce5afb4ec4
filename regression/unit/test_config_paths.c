/* TEST timeout=60 */
/* SPDX-License-Identifier: Apache-2.0 */
/* Paths as people write them, and lists of them. */
#include "penta/base/alloc.h"
#include "penta/config/config.h"
#include "regression/tap.h"

#include <stdlib.h>
#include <string.h>

static pt_config_t a, b;

static bool same_values(const pt_config_t *x, const pt_config_t *y)
{
    return memcmp(x, y, offsetof(pt_config_t, origin)) == 0;
}

static pt_status_t gather_one(const char *argument)
{
    char *gathered = NULL, *args[1] = {(char *)argument};
    pt_status_t status;

    pt_error_clear();
    status = pt_config_gather(NULL, 1, args, &gathered);
    if (status == PT_OK)
        status = pt_config_parse(gathered, &a);
    pt_free(gathered);
    return status;
}

/* ~ and $HOME begin paths; what is archived is read as it is. */
static void check_spellings(void)
{
    static const struct {
        const char *spelling, *run_dir;
    } expanded[] = {
        {"run.dir=~/a", "/h/me/a"},
        {"run.dir=~", "/h/me"},
        {"run.dir=$HOME/a", "/h/me/a"},
        {"run.dir=${HOME}/a b", "/h/me/a b"},
        {"run.dir=\"~/a\"", "/h/me/a"},
        {"run.dir=./~", "./~"},
        {"run.dir=./~x", "./~x"},
        {"run.dir=a~", "a~"},
        {"run.dir=a$", "a$"},
        {"run.dir=a$5", "a$5"},
        {"run.dir=\"\\x24HOME\"", "$HOME"},
        {"run.dir=\"\\x7e\"", "~"},
        {"run.dir=\"a\\x24b\"", "a$b"},
    };
    static const char *const refused[] = {
        "run.dir=~bob/x",     "run.dir=~+",           "run.dir=$USER/x",
        "run.dir=a/$USER",    "run.dir=${TMP}",       "run.dir=x$HOME",
        "data.path=a,~bob/b", "data.path=\"$x,b\"",   "train.init_from=$SCRATCH/x",
        "run.dir=$HOMEx",     "checkpoint.resume=~u", "data.validation=a=$X/y",
    };
    char *ini;

    setenv("HOME", "/h/me", 1);
    for (size_t i = 0; i < sizeof expanded / sizeof expanded[0]; i++) {
        tap_ok(gather_one(expanded[i].spelling) == PT_OK &&
                   strcmp(a.run.dir, expanded[i].run_dir) == 0,
               "%s is %s %s", expanded[i].spelling, a.run.dir, pt_error_last()->text);
        tap_ok(pt_config_to_ini(&a, &ini) == PT_OK &&
                   pt_config_parse(ini, &b) == PT_OK && same_values(&a, &b),
               "and survives");
        pt_free(ini);
    }
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        tap_ok(gather_one(refused[i]) == PT_CONFIG &&
                   strstr(pt_error_last()->text, "not expanded"),
               "%s: %s", refused[i], pt_error_last()->text);
}

static void check_lists(void)
{
    char item[PT_CONFIG_TEXT];

    tap_ok(gather_one("sample.prompt=~ $HOME") == PT_OK &&
               strcmp(a.sample.prompt, "~ $HOME") == 0,
           "a text is no path");
    tap_ok(gather_one("data.validation=x=~/a, y=$HOME/b") == PT_OK &&
               strcmp(pt_config_validation(&a, 1, item), "/h/me/b") == 0,
           "each item of a list: %s", a.data.validation);
    setenv("HOME", "/h/m,e\\ \"", 1);
    tap_ok(gather_one("data.path=a,~/b,\\,c\\\\,d") == PT_OK &&
               pt_config_items(&a, PT_OPTION_data_path) == 4,
           "a home with a comma: %s", a.data.path);
    pt_config_item(&a, PT_OPTION_data_path, 1, item);
    tap_ok(strcmp(item, "/h/m,e\\ \"/b") == 0, "... %s", item);
    pt_config_item(&a, PT_OPTION_data_path, 2, item);
    tap_ok(strcmp(item, ",c\\") == 0, "... a name with a comma and a backslash: %s",
           item);
    unsetenv("HOME");
    tap_ok(gather_one("run.dir=~/x") == PT_CONFIG &&
               strstr(pt_error_last()->text, "HOME is not set"),
           "without HOME: %s", pt_error_last()->text);
    tap_ok(gather_one("run.dir=x") == PT_OK, "which others do not need");
    pt_error_clear();
}

int main(void)
{
    check_spellings();
    check_lists();
    return tap_done();
}
