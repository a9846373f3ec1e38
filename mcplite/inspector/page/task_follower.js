// TaskFollower: asks for the tasks that the page shows until they have ended, as often as their server wants.

// Milliseconds between two requests for a task: the default, and the limits of what a server may wish. And the most
// tasks that are followed at once.
const USUAL = 2_000;
const [SHORTEST, LONGEST] = [250, 30_000];
const MOST = 20;

// Whether a task has ended.
export const hasEnded = (task) => ["completed", "failed", "cancelled"].includes(task.status);

export class TaskFollower {
  constructor(record) {
    this._record = record;
    this._server = null;
    // By task: the timer of the next request for it.
    this._timers = new Map();
  }

  // Follows these tasks of a server, and no others; with an empty list it follows none.
  follow(server, tasks) {
    const wanted = tasks.filter((task) => !hasEnded(task)).slice(0, MOST);
    const names = new Set(wanted.map((task) => task.taskId));
    for (const [id, timer] of this._timers) {
      if (server === this._server && names.has(id)) continue;
      clearTimeout(timer);
      this._timers.delete(id);
    }
    this._server = server;
    for (const task of wanted) {
      if (!this._timers.has(task.taskId)) this._later(server, task);
    }
  }

  _later(server, task) {
    const wished = task.pollInterval ?? task.pollIntervalMs;
    const pause = Math.min(LONGEST, Math.max(SHORTEST, typeof wished === "number" ? wished : USUAL));
    const timer = setTimeout(async () => {
      let known = true;
      try {
        await this._record.follow(server, task.taskId);
      } catch {
        known = false; // when the list is requested again, it shows the error
      }
      // Meanwhile the task may be followed no more, or have another timer.
      if (this._timers.get(task.taskId) !== timer) return;
      this._timers.delete(task.taskId);
      if (known) {
        const now = this._record.list(server, "tasks").items.find((one) => one.taskId === task.taskId);
        if (now && !hasEnded(now)) this._later(server, now);
      }
    }, pause);
    this._timers.set(task.taskId, timer);
  }
}
