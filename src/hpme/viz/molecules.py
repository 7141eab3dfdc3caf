"""Molecules drawn by RDKit, their bonds and atoms on bands of colour."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib.colors import Normalize, to_rgb
from matplotlib.image import imread
from torch import Tensor

from hpme.data.molecules.chem import rdkit_module, read_molecule
from hpme.errors import HPMEError
from hpme.viz.nodelink import STARTS, NodeLinkPainter, undirected_edges, undirected_weights
from hpme.viz.style import BANDS, INK, POOLED, REST, TRUTH_BAND, tones

PIXELS_PER_INCH = 220
"""Twice the resolution of a picture, so that scaling down leaves letters smooth."""
BAND_WIDTHS = (0.14, 0.5)
ATOM_RADIUS, RING_RADIUS = 0.27, 0.37
"""In bond lengths, as are the widths of bands."""
BOND_LINE = 3

Colour = tuple[float, float, float]
Band = tuple[int, int, Colour, float]
"""The two atoms it lies under, its colour, and its width."""


def can_draw_molecules(graphs: Sequence[Any]) -> bool:
    """Whether all graphs are molecules and RDKit is there to draw them."""
    return all(molecule_of(graph) is not None for graph in graphs)


def molecule_of(graph: Any) -> Any:
    """The molecule with positions; ``None`` if the graph is none, or without RDKit."""
    smiles, places = graph.get("smiles"), graph.get("places")
    if not isinstance(smiles, str):
        return None
    known = None if places is None else np.asarray(places, dtype=np.float64).tobytes()
    try:
        rdkit_module("Chem.Draw.rdMolDraw2D")
        return _placed_molecule(smiles, graph.num_nodes, known)
    except HPMEError:  # no RDKit, or a text that is no SMILES
        return None


class MoleculePainter(NodeLinkPainter):
    """Draws molecules; an atom has the colour of its effect, or of its heaviest bond."""

    panel = (3.3, 2.2)
    truth_colour = TRUTH_BAND
    colours = BANDS

    def __init__(self, suffix: str) -> None:
        self._svg = suffix == ".svg"  # else RDKit's pixels are pasted in place of its shapes
        self._shapes: list[tuple[Any, str]] = []

    def draw_marked(
        self, axes: Any, graph: Any, edges: Tensor, nodes: Tensor | None, colour: str
    ) -> None:
        """Draws a molecule with some bonds and atoms on a colour."""
        chosen, rgb = undirected_edges(graph), to_rgb(colour)
        bonds = graph.edge_index[:, chosen[edges[chosen]]].t().tolist()
        atoms = [] if nodes is None else nodes.nonzero().view(-1).tolist()
        bands = [(a, b, rgb, BAND_WIDTHS[1]) for a, b in bonds]
        self._draw(axes, graph, bands, dict.fromkeys(atoms, rgb), {})

    def draw_weights(self, axes: Any, graph: Any, explanation: Any, norm: Normalize) -> None:
        """Draws a molecule with edge weights, pooled atoms and the rest ringed."""
        chosen = undirected_edges(graph)
        weight = undirected_weights(graph, explanation.edge_mask)[chosen]
        order = weight.argsort()  # heavy bonds over light ones
        ends = graph.edge_index[:, chosen[order]].t().tolist()
        shares = norm(weight[order].nan_to_num().numpy()).tolist()
        bands, signed, (low, high) = list[Band](), tones(explanation), BAND_WIDTHS
        atoms = {i: to_rgb(one) for i, one in enumerate(signed or ())}
        for (a, b), share in zip(ends, shares, strict=True) if signed is None else ():
            atoms[a] = atoms[b] = colour = to_rgb(BANDS(share))
            bands.append((a, b, colour, low + (high - low) * share))
        rings = dict[int, str]()
        for name, ring in (("pooled", POOLED), ("rest", REST)):
            if explanation.get(name) is not None:
                rings |= dict.fromkeys(explanation[name].nonzero().view(-1).tolist(), ring)
        self._draw(axes, graph, bands, atoms, rings)

    def finish(self, content: bytes) -> bytes:
        """The file with RDKit's shapes, if it is an SVG."""
        if not self._shapes:
            return content
        head, end, tail = content.decode().rpartition("</svg>")
        return "".join([head, *(_placed(*shapes) for shapes in self._shapes), end, tail]).encode()

    def _draw(
        self,
        axes: Any,
        graph: Any,
        bands: list[Band],
        atoms: dict[int, Colour],
        rings: dict[int, str],
    ) -> None:
        """Puts a molecule on its bands, later ones on top, and on discs of colour."""
        axes.set_axis_off()
        width, height = (round(side * PIXELS_PER_INCH) for side in self.panel)
        molecule, kind = molecule_of(graph), "SVG" if self._svg else "Cairo"
        probe = _drawer(kind, width, height)  # atoms have places only after drawing
        probe.DrawMolecule(molecule)
        places = [probe.GetDrawCoords(i) for i in range(molecule.GetNumAtoms())]
        lengths = sorted(
            (places[bond.GetBeginAtomIdx()] - places[bond.GetEndAtomIdx()]).Length()
            for bond in molecule.GetBonds()
        )
        unit = lengths[len(lengths) // 2] if lengths else height / 6
        drawer = _drawer(kind, width, height)
        drawer.SetFillPolys(True)
        for a, b, colour, share in bands:
            drawer.SetColour(colour)
            drawer.SetLineWidth(max(1, round(share * unit)))
            drawer.DrawLine(places[a], places[b], rawCoords=True)
        white = dict.fromkeys(rings, (1.0, 1.0, 1.0))  # a ring is a disc under a smaller one
        discs = [
            (atom, share * RING_RADIUS, to_rgb(colour))
            for atom, ring in rings.items()
            for share, colour in ((1.0, INK), (0.94, ring))
        ]
        discs += [(atom, ATOM_RADIUS, colour) for atom, colour in (white | atoms).items()]
        for atom, share, colour in discs:
            corner = rdkit_module("Geometry").Point2D(share * unit, share * unit)
            drawer.SetColour(colour)
            drawer.SetLineWidth(1)
            drawer.DrawEllipse(places[atom] - corner, places[atom] + corner, rawCoords=True)
        drawer.SetLineWidth(BOND_LINE)  # the drawing would go on with the width used last
        drawer.DrawMolecule(molecule)
        drawer.FinishDrawing()
        if self._svg:
            self._shapes.append((axes, drawer.GetDrawingText()))
        else:
            axes.imshow(imread(io.BytesIO(drawer.GetDrawingText())))


Painter = NodeLinkPainter


def painter_of(graphs: Sequence[Any], suffix: str, starts: int = STARTS) -> Painter:
    """What draws graphs; all panels of a graph place its nodes alike."""
    return MoleculePainter(suffix) if can_draw_molecules(graphs) else NodeLinkPainter(starts)


@lru_cache(maxsize=256)
def _placed_molecule(smiles: str, num_atoms: int, places: bytes | None = None) -> Any:
    """The molecule with positions, turned so that atoms come near ``places``, if it fits."""
    both = (read_molecule(smiles, hydrogens=hydrogens) for hydrogens in (False, True))
    molecule = next((one for one in both if one.GetNumAtoms() == num_atoms), None)
    if molecule is None:
        return None
    rdkit_module("Chem.rdDepictor").Compute2DCoords(molecule)
    if places is not None:
        _turn(molecule.GetConformer(), np.frombuffer(places).view(np.complex128))
    draw = rdkit_module("Chem.Draw.rdMolDraw2D")
    return draw.PrepareMolForDrawing(molecule, addChiralHs=False)


def sketch(smiles: str) -> bytes:
    """An SVG of a molecule without any colours, such as one that is still being typed."""
    drawer = _drawer("SVG", 400, 220)
    drawer.DrawMolecule(read_molecule(smiles))
    drawer.FinishDrawing()
    return bytes(drawer.GetDrawingText(), "utf-8")


def _turn(conformer: Any, places: Any) -> None:
    """Turns a drawing so that it fits places; all bonds keep their lengths and angles."""
    own, known = conformer.GetPositions(), ~np.isnan(places)
    if not known.any():
        return
    flat = own[:, 0] + 1j * own[:, 1]
    centre, goal = flat[known].mean(), places[known].mean()
    flat, aims = flat - centre, (places - goal)[known]
    # The best turn is the direction of a sum of products; of the mirror image, of its conjugates.
    turn, mirrored = np.vdot(flat[known], aims), (flat[known] * aims).sum()
    if abs(mirrored) > 1.001 * abs(turn):
        flat, turn = flat.conj(), mirrored
    flat = flat * (turn / (abs(turn) or 1) or 1) + goal
    own[:, 0], own[:, 1] = flat.real, flat.imag
    for atom, place in enumerate(own.tolist()):
        conformer.SetAtomPosition(atom, place)


def _drawer(kind: str, width: int, height: int) -> Any:
    """What RDKit draws on, as ``"SVG"`` or ``"Cairo"``."""
    drawer = getattr(rdkit_module("Chem.Draw.rdMolDraw2D"), f"MolDraw2D{kind}")(width, height)
    options = drawer.drawOptions()
    options.clearBackground = False
    options.padding = 0.08  # room for a ring around an outer atom
    options.bondLineWidth = BOND_LINE
    options.useBWAtomPalette()
    return drawer


def _placed(axes: Any, drawing: str) -> str:
    """The shapes of an SVG file as an element that covers the axes."""
    figure = axes.get_figure(root=True)
    # SVG counts points from the top, matplotlib pixels from the bottom.
    box, scale = axes.get_window_extent(), 72 / figure.dpi
    top = figure.get_size_inches()[1] * 72 - box.y1 * scale
    opening, _, body = drawing.partition("<!-- END OF HEADER -->")
    view = opening.partition("viewBox='")[2].partition("'")[0]
    return (
        f'<svg x="{box.x0 * scale:.2f}" y="{top:.2f}" width="{box.width * scale:.2f}" '
        f'height="{box.height * scale:.2f}" viewBox="{view}">{body.rpartition("</svg>")[0]}</svg>\n'
    )
