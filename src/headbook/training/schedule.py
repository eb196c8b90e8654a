"""The learning rate: warm-up, then the inverse square root of the update."""


def learning_rate(update: int, width: int, scale: float, warmup: int) -> float:
    """scale · width^-½ · min(update^-½, update · warmup^-1.5), updates counted from one.

    The form of the paper's repository; the paper's text leaves out width^-½, with which its scale
    of 4 and warm-up of 16,000 would peak at 0.03.
    """
    return scale * width**-0.5 * min(update**-0.5, update * warmup**-1.5)
