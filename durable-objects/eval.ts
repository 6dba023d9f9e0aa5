import { DurableObject } from 'cloudflare:workers'
import { createAskModel } from '../src/adapters/ask-model.ts'
import { EvalRunActor } from '../src/core/eval-run/eval-run.ts'
import { attemptSessions } from '../src/core/verbs/create-session.ts'
import { type Env, organisationApi, bindPartsOnce, sessionApi, ledgerOf } from './bindings.ts'
import { answerCarried } from './carried.ts'
import { Opened } from './opened.ts'
import { durableSqlite } from './sqlite.ts'

/**
 * One eval run. It decides nothing: it carries calls and alarms to its actor. The Worker calls it for the routes of evals;
 * no other object does.
 */
export class EvalObject extends DurableObject<Env> {
  readonly #opened: Opened<EvalRunActor>

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env)
    const create = () => {
      const parts = bindPartsOnce(env)
      const session = (id: string) => sessionApi(env, id)
      const organisation = (id: string) => organisationApi(env, id)
      return new EvalRunActor({
        ...parts,
        sql: durableSqlite(ctx.storage),
        host: {
          arm: (at) => void (at === null ? ctx.storage.deleteAlarm() : ctx.storage.setAlarm(at)),
          sleep: (ms) => scheduler.wait(ms),
          async erase() {
            await ctx.storage.deleteAll()
            await ctx.storage.deleteAlarm()
          },
        },
        now: () => Date.now(),
        session,
        askModel: createAskModel({ ...parts.config, organisation }),
        beginSession: attemptSessions({ ...parts, session, organisation }),
        ledger: (id) => ledgerOf(env, id),
        config: parts.sessionConfig,
      })
    }
    this.#opened = new Opened(ctx, create)
  }

  /** Every call of the run's Api comes by here. */
  async ask(call: string, bytes?: Uint8Array): Promise<string | undefined> {
    return answerCarried(this.#opened.actor.api, call, bytes)
  }

  override alarm(): Promise<void> {
    return this.#opened.alarm()
  }
}
