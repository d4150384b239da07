// RMSprop (Tieleman and Hinton, 2012), centered and with momentum on request.
// https://www.cs.toronto.edu/~tijmen/csc321/slides/lecture_slides_lec6.pdf
// Operation order of torch 2.11 on the CPU, with an IEEE root. Without momentum lr multiplies g before the division,
// with it the buffer after it. t is only counted, as in torch's state. Without decay an infinite w leaves g alone.
rule rmsprop(param w, grad g, state v mean buf, lr = 1e-2, alpha = 0.99, eps = 1e-8, momentum = 0.0, decay = 0.0, step t,
             option centered momentum_on maximize)
  g = -g if maximize else g
  g = fma(decay, w if decay != 0 else -0.0, g)
  v = fma((1 - alpha) * g, g, alpha * v)
  new_mean = lerp(mean, g, 1 - alpha)
  mean = new_mean if centered else mean
  denom = sqrt(fma(-new_mean, new_mean, v) if centered else v) + eps
  new_buf = momentum * buf + g / denom
  buf = new_buf if momentum_on else buf
  w = fma(-lr, new_buf, w) if momentum_on else w + -lr * g / denom
