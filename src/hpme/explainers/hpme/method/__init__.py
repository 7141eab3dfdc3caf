r"""The paper, equation by equation; nothing here knows how a pool is searched.

:mod:`pool` is :math:`Q_\phi` (Eq. graph_pooling) and its preserved nodes :math:`I^L`, :mod:`mixup`
the structural mixup (Eq. str_mixup) and its mask :math:`\mathbf{M}^{(mix)}`, :mod:`boundary` how
the two graphs are joined, :mod:`mixer` Algorithm 2, :mod:`training` the losses (Eqs. bce_loss and
finall_loss) and Algorithm 1.
"""
