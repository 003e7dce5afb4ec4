/* SPDX-License-Identifier: Apache-2.0 */
/* A rank that makes the others wait says so itself: from the exchange it knows how long
 * all of them work. */
#include "penta/base/log.h"
#include "src/train/run.h"

/* Over so many steps and seconds the noise of a system is small. Less than this share
 * of a step is not worth a line. */
enum { WINDOW_STEPS = 20, MOST_RANKS = 8 };
static const double window_sec = 10, worth_share = 0.2;

static void straggler_warn(const straggler_t *s, int64_t ranks)
{
    if (ranks > MOST_RANKS && pt_log_rank() != 0)
        return;
    if (ranks > MOST_RANKS)
        pt_log_all(PT_LOG_WARN, "%lld ranks are slow; this is one of them",
                   (long long)ranks);
    pt_log_all(PT_LOG_WARN,
               "rank %d on host %s is slow: of each of the last %lld steps it worked "
               "%.3g s, the other ranks %.3g s; they wait for it %.0f %% of the time; "
               "later reports of this rank become rarer",
               pt_log_rank(), pt_log_host(), (long long)s->steps,
               s->work_sec / (double)s->steps, s->others_sec / (double)s->steps,
               100 * s->share);
}

static void straggler_judge(straggler_t *s)
{
    s->share = (s->work_sec - s->others_sec) / s->step_sec;
    s->slow = s->share >= worth_share;
    s->windows += s->slow;
}

void straggler_note(straggler_t *s, const pt_step_result_t *step)
{
    int others = pt_log_size() - 1;
    double work_sec = s->last_work_sec, step_sec = s->last_step_sec;
    s->last_work_sec = step->step_sec - step->comm_sec;
    s->last_step_sec = step->step_sec;
    if (s->slow) { /* the others have heard of it with this step */
        if (pt_log_is_due(s->windows))
            straggler_warn(s, step->slow_ranks);
        *s = (straggler_t){.windows = s->windows,
                           .last_work_sec = s->last_work_sec,
                           .last_step_sec = s->last_step_sec};
        return;
    }
    if (others == 0 || step->works_sec <= 0)
        return;
    s->steps++;
    s->work_sec += work_sec;
    s->others_sec += (step->works_sec - work_sec) / others;
    s->step_sec += step_sec;
    if (s->steps < WINDOW_STEPS || s->step_sec < window_sec)
        return;
    straggler_judge(s);
    if (!s->slow)
        s->steps = 0, s->work_sec = s->others_sec = s->step_sec = 0;
}
