// A small network learns to tell two spirals apart. One compiled program is a whole step of training: it
// reads the weights, which are states, gives the loss, and updates the weights in place.
#include <cmath>
#include <iostream>
#include <lathe/lathe.hpp>
#include <numbers>
using lathe::Tensor;

int main() {
  constexpr int kPoints = 256, kHidden = 32;
  std::vector<float> places;
  std::vector<float> labels; // 0 or 1
  for (int i = 0; i < kPoints; ++i) {
    const double turn = 0.25 + 1.5 * (i / 2) / (kPoints / 2),
                 angle = 2 * std::numbers::pi * (turn + 0.5 * (i % 2));
    places.insert(places.end(),
                  {static_cast<float>(turn * std::cos(angle)), static_cast<float>(turn * std::sin(angle))});
    labels.push_back(static_cast<float>(i % 2));
  }

  // The weights before the first step.
  const std::vector<lathe::State> weights{
      {"w1", Tensor::randn({2, kHidden}, /*seed=*/1)},
      {"b1", Tensor::randn({kHidden}, 2)},
      {"w2", Tensor::randn({kHidden, kHidden}, 3) * (1 / std::sqrt(kHidden))},
      {"b2", Tensor::zeros({kHidden})},
      {"w3", Tensor::randn({kHidden, 1}, 4) * (1 / std::sqrt(kHidden))},
      {"b3", Tensor::zeros({1})}};
  std::vector<Tensor> w;
  for (const lathe::State& weight : weights) w.push_back(weight.value());

  // The step, as a program.
  const Tensor x = Tensor::input("x", {kPoints, 2}), label = Tensor::input("label", {kPoints});
  const Tensor h1 = (x.matmul(w[0]) * 2.0 + w[1]).tanh();
  const Tensor h2 = (h1.matmul(w[2]) + w[3]).tanh();
  const Tensor score = (h2.matmul(w[4]) + w[5]).squeeze(1);
  const Tensor loss = (score.softplus() - label * score).mean(); // cross entropy of sigmoid(score)
  const Tensor right = ((score > 0.0) == (label > 0.5)).cast(lathe::DType::F32).mean();

  // Each weight has a velocity, for steps with momentum.
  const std::vector<Tensor> slopes = lathe::gradients(loss, w);
  std::vector<lathe::Update> updates;
  for (size_t k = 0; k < w.size(); ++k) {
    const lathe::State speed(weights[k].name() + "_velocity", weights[k].shape());
    updates.push_back(speed.assign(speed.value() * 0.95 - slopes[k] * 0.1));
    updates.push_back(weights[k].assign(w[k] + updates.back().value));
  }
  const lathe::Executable step = lathe::compile({{"loss", loss}, {"right", right}}, {}, updates);

  const lathe::NamedTensors data{{"x", Tensor::from(places, {kPoints, 2})}, {"label", Tensor::from(labels)}};
  float first = 0, last = 0;
  constexpr int kSteps = 600;
  for (int i = 0; i <= kSteps; ++i) {
    const lathe::NamedTensors out = step(data);
    last = out.at("loss").item<float>();
    if (i == 0) first = last;
    if (i % 200 == 0)
      std::cout << "step " << i << ": loss " << last << ", " << out.at("right").item<float>() * 100
                << " % right\n";
  }
  std::cout << "the loss fell " << (last < first / 10 ? "to less than a tenth" : "too little")
            << "; one step is " << step.kernel_count() << " kernels\n";
  return last < first / 10 ? 0 : 1;
}
