/** A sleep that can be cut short, also before it has begun. */
export class Alarm {
  #rung = false
  #wake = () => {}

  ring(): void {
    this.#rung = true
    this.#wake()
  }

  async wait(ms: number): Promise<void> {
    if (!this.#rung) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, ms)
        this.#wake = () => {
          clearTimeout(timer)
          resolve()
        }
      })
    }
    this.#rung = false
  }
}
