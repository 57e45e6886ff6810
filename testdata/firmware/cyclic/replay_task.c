/* An example: a replay in slices of a cyclic task. */
#include "replay_task.h"

void ReplayTask_Init(ReplayTask *task, struct lmplay_replay *replay, uint32_t budget)
{
	const ReplayTask empty = {0};
	*task = empty;
	task->replay = replay;
	task->budget = budget;
	task->state = REPLAY_TASK_IDLE;
}

enum lmplay_code ReplayTask_Request(ReplayTask *task, uint32_t sequence)
{
	if (task->state == REPLAY_TASK_BUSY)
		return LMPLAY_USAGE;
	/* The limit 0 is that of lmplay_verify. It counts from here, whatever the scheduler does. */
	enum lmplay_code code = lmplay_start(task->replay, sequence, 0);
	if (code == LMPLAY_OK) {
		task->state = REPLAY_TASK_BUSY;
		task->periods = 0;
	}
	return code;
}

void ReplayTask_MainFunction(ReplayTask *task)
{
	if (task->state != REPLAY_TASK_BUSY)
		return;
	task->periods++;
	/* lmplay_step never waits: while a poll or a delay pauses, it returns at once. */
	enum lmplay_code code = lmplay_step(task->replay, task->budget);
	if (code == LMPLAY_BUSY)
		return;
	lmplay_result(task->replay, &task->result);
	task->state = code == LMPLAY_OK ? REPLAY_TASK_DONE : REPLAY_TASK_FAILED;
}

void ReplayTask_Cancel(ReplayTask *task)
{
	/* The player notices it in the next period, and then runs "safe" in slices, too. It ignores
	   lmplay_stop while "safe" runs. */
	if (task->state == REPLAY_TASK_BUSY)
		lmplay_stop(task->replay);
}
