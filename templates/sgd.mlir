// SGD with momentum (Polyak, 1964; Nesterov, 1983; Sutskever et al., 2013).
// https://proceedings.mlr.press/v28/sutskever13.html
// Operation order of torch 2.11 on the CPU. Without `momentum_on` no buffer is stored; without it torch's `nesterov`
// and `dampening` have no meaning. Without decay a g of -0 stays -0, and buf copies the first one whole.
rule sgd(param w, grad g, state buf, lr = 1e-3, momentum = 0.0, dampening = 0.0, decay = 0.0, step t,
         option momentum_on nesterov maximize)
  g = -g if maximize else g
  g = fma(decay, w, g) if decay != 0 else g
  new_buf = g if t == 1 else fma(1 - dampening, g, momentum * buf)
  buf = new_buf if momentum_on else buf
  moved = fma(momentum, new_buf, g) if nesterov else new_buf
  w = fma(-lr, moved if momentum_on else g, w)
