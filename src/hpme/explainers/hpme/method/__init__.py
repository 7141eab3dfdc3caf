r"""The paper, equation by equation; nothing here knows how a pool is searched.

:mod:`pool` is :math:`Q_\phi` (Eq. graph_pooling), :mod:`selection` its preserved nodes
:math:`I^L`, :mod:`mixup` the structural mixup (Eq. str_mixup), :mod:`mask` the mask
:math:`\mathbf{M}^{(mix)}`, :mod:`objective` the losses (Eqs. bce_loss and finall_loss),
:mod:`mixer` Algorithm 2 and :mod:`training` Algorithm 1.
"""
