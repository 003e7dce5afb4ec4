/* SPDX-License-Identifier: Apache-2.0 */
#include "src/cmd/private.h"

#include <stdio.h>
#include <string.h>

static const pt_command_t *const commands[] = {
    &pt_command_train,  &pt_command_plan,   &pt_command_inspect,
    &pt_command_sample, &pt_command_status,
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

const pt_command_t *pt_command_find(const char *name)
{
    int nearest = 0;
    for (int c = 0; c < COMMANDS; c++) {
        if (strcmp(commands[c]->name, name) == 0)
            return commands[c];
        if (pt_text_distance(name, commands[c]->name) <
            pt_text_distance(name, commands[nearest]->name))
            nearest = c;
    }
    if (name[0] == '-') {
        PT_FAIL_COMMON(PT_CONFIG, "no option '%s'; 'penta --help' lists them", name);
        return NULL;
    }
    if (!pt_text_is_near(name, pt_text_distance(name, commands[nearest]->name)))
        PT_FAIL_COMMON(PT_CONFIG, "no command '%s'; 'penta --help' lists them", name);
    else
        PT_FAIL_COMMON(PT_CONFIG,
                       "no command '%s'; maybe: %s? 'penta --help' lists them", name,
                       commands[nearest]->name);
    return NULL;
}

static void commands_put_line(void *sink, const char *line)
{
    fprintf(sink, "%s\n", line);
}

static void commands_list(void)
{
    printf("usage: penta COMMAND [CONF] [section.key=value ...]\n"
           "       penta COMMAND --help | --version | --man | --template\n\n"
           "Pre-trains language models on clusters; start parallel commands with "
           "mpiexec or srun.\n\n"
           "commands:\n");
    for (int c = 0; c < COMMANDS; c++)
        printf("  %-9s %s\n", commands[c]->name, commands[c]->summary);
    printf("\nexit codes:");
    for (int s = 0; s < PT_STATUS_COUNT; s++)
        printf("%s %d %s", s ? ";" : "", pt_status_exit_code((pt_status_t)s),
               pt_status_sentence((pt_status_t)s));
    printf(".\n");
}

void pt_command_help(const pt_command_t *command)
{
    if (command == NULL) {
        commands_list();
        return;
    }
    printf("usage: penta %s %s\n\n%s.\n\n%s\n", command->name, command->arguments,
           command->summary, command->details);
    if (command->sections[0]) {
        printf("\noptions, in CONF as [section] key = value, or as arguments "
               "section.key=value "
               "(later ones win):\n");
        pt_config_help(command->sections, commands_put_line, stdout);
    }
}

bool pt_cmd_take_flag(int *argc, char **argv, const char *flag)
{
    int kept = 0;
    bool found = false;
    for (int i = 0; i < *argc; i++) {
        if (strcmp(argv[i], flag) == 0)
            found = true;
        else
            argv[kept++] = argv[i];
    }
    *argc = kept;
    return found;
}
