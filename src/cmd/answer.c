/* SPDX-License-Identifier: Apache-2.0 */
#include "penta/base/alloc.h"
#include "pt_version.h"
#include "src/cmd/private.h"

#include <stdio.h>
#include <string.h>

static pt_status_t answer_print_text(pt_status_t (*make)(char **))
{
    char *text = NULL;
    PT_TRY(make(&text));
    fputs(text, stdout);
    pt_free(text);
    return PT_OK;
}

static bool answer_is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

pt_status_t pt_cmd_check_output(pt_status_t status)
{
    bool lost = fflush(stdout) != 0 || ferror(stdout);
    if (status == PT_OK && lost && !pt_output_is_unread())
        return PT_FAIL_COMMON(PT_IO, "standard output cannot be written");
    return status;
}

bool pt_cmd_is_answered(int argc, char **argv, pt_status_t *status)
{
    const char *word = argc > 1 ? argv[1] : "--help";
    *status = argc > 1 ? PT_OK : PT_CONFIG;
    if (answer_is_help(word) || strcmp(word, "help") == 0)
        pt_command_help(NULL);
    else if (strcmp(word, "--version") == 0)
        printf("penta %s (%s)\n", PT_VERSION, PT_GIT_REVISION);
    else if (strcmp(word, "--man") == 0)
        *status = answer_print_text(pt_config_man);
    else if (strcmp(word, "--template") == 0)
        *status = answer_print_text(pt_config_template);
    else
        return false;
    *status = pt_cmd_check_output(*status);
    return true;
}

bool pt_cmd_is_helped(const pt_command_t *command, int argc, char **argv,
                      pt_status_t *status)
{
    bool asked = false;
    for (int i = 2; i < argc; i++)
        asked |= answer_is_help(argv[i]);
    if (asked)
        pt_command_help(command);
    *status = asked ? pt_cmd_check_output(PT_OK) : PT_OK;
    return asked;
}
